#include "accrue/train/inputs.h"

#include <algorithm>

#include "accrue/base/error.h"
#include "accrue/data/stories.h"

namespace accrue {
namespace {

// The built-in corpus: enough for the default 200 windows to see nothing twice, and stories that training never sees.
constexpr int64_t kStoryBytes = 1'800'000;
constexpr int64_t kValidationStoryBytes = 16'384;
constexpr uint64_t kFirstValidationStory = 1'000'000'000;

// Grains of about so many tokens keep the products busy on a CPU.
constexpr int64_t kGrainTokens = 1024;

std::vector<std::filesystem::path> paths_of(const std::vector<std::string>& names) {
    return {names.begin(), names.end()};
}

std::unique_ptr<Dataset> story_data(uint64_t first, int64_t bytes, int64_t sequence_length) {
    return dataset_of_tokens(ByteTokenizer().encode(stories(first, bytes)), sequence_length, "built-in stories");
}

}  // namespace

int64_t RunInputs::longest_sample() const {
    return std::max(train->longest(), validation ? validation->longest() : 0);
}

std::unique_ptr<Dataset> open_training_data(const Settings& settings) {
    if (settings.data.train.empty()) {
        return story_data(0, kStoryBytes, settings.data.sequence_length);
    }
    return open_dataset(paths_of(settings.data.train), settings.data.sequence_length);
}

std::unique_ptr<Dataset> open_validation_data(const Settings& settings) {
    if (!settings.data.validation.empty()) {
        return open_dataset(paths_of(settings.data.validation), settings.data.sequence_length);
    }
    if (settings.data.train.empty()) {
        return story_data(kFirstValidationStory, kValidationStoryBytes, settings.data.sequence_length);
    }
    return nullptr;
}

void check_tokens(const Dataset& data, const ModelConfig& model) {
    const Dataset::LargestToken largest = data.largest_token();
    if (largest.token >= model.vocabulary) {
        throw Error(cat(largest.where, " holds token ", largest.token, ", but the model's vocabulary has only ",
                        model.vocabulary, " words (0 to ", model.vocabulary - 1,
                        "). The data was made with another tokenizer, or the model is the wrong one."));
    }
}

RunInputs open_inputs(Settings settings) {
    RunInputs inputs;
    inputs.train = open_training_data(settings);
    inputs.validation = open_validation_data(settings);
    inputs.has_text = settings.data.train.empty() || is_text(paths_of(settings.data.train));
    const int64_t longest = inputs.longest_sample();
    if (longest == 0) {
        throw Error("the training data counts no token at all: every label is masked. Check the labels.");
    }
    inputs.model = settings.model.from.empty() ? preset_config(settings.model.preset)
                                               : read_model_config(settings.model.from, longest);
    if (longest > inputs.model.positions) {
        throw Error(cat("data.sequence_length: samples have up to ", longest, " tokens, but the model has only ",
                        inputs.model.positions, " positions. Set data.sequence_length to at most that."));
    }
    check_tokens(*inputs.train, inputs.model);
    if (inputs.validation) {
        check_tokens(*inputs.validation, inputs.model);
    }
    if (settings.window.grain_samples == 0) {
        settings.window.grain_samples = (kGrainTokens + longest - 1) / longest;
    }
    inputs.settings = std::move(settings);
    return inputs;
}

}  // namespace accrue
