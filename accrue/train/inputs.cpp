#include "accrue/train/inputs.h"

#include <algorithm>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/data/document.h"
#include "accrue/data/input_stream.h"
#include "accrue/data/stories.h"

namespace accrue {
namespace {

// The built-in corpus: enough for the default 200 windows to see nothing twice, and stories that training never sees.
constexpr int64_t kStoryBytes = 1'800'000;
constexpr int64_t kValidationStoryBytes = 16'384;
constexpr uint64_t kFirstValidationStory = 1'000'000'000;

// Grains of about so many tokens keep the products busy on a CPU.
constexpr int64_t kGrainTokens = 1024;

std::unique_ptr<Dataset> story_data(const Tokenizer& tokenizer, uint64_t first, int64_t bytes,
                                    int64_t sequence_length) {
    return dataset_of_tokens(tokenizer.encode(stories(first, bytes), Special::without), sequence_length,
                             "built-in stories");
}

bool has_tokenizer(const std::filesystem::path& folder) {
    return std::filesystem::exists(folder / "tokenizer.json") || std::filesystem::exists(folder / "tokenizer.model");
}

// Files that hold token ids already.
bool holds_ids(const std::filesystem::path& file) {
    const std::string name = without_compression(file).extension().string();
    return name == ".safetensors" || name == ".bin";
}

// Beside the run, so that the next run finds it.
std::filesystem::path cache_folder_of(const Settings& settings) {
    const std::filesystem::path run = settings.run.folder.empty() ? "runs/next" : settings.run.folder;
    return run.parent_path() / "token-cache";
}

CacheProgressCallback told_as_validation(const CacheProgressCallback& progress) {
    if (!progress) {
        return nullptr;
    }
    return [progress](CacheProgress now) {
        now.purpose = "validation";
        progress(now);
    };
}

// Of a size that no machine holds, and that would take the planner itself too long to look at.
void check_micro_batch(int64_t grain_samples, int64_t micro_batch_grains, int64_t longest_sample) {
    const int64_t grains = std::max<int64_t>(1, micro_batch_grains);
    if (static_cast<double>(grains) * static_cast<double>(grain_samples) * static_cast<double>(longest_sample) >
        kMostTokensAtOnce) {
        throw Error(cat("a micro-batch of ", grains, " grain(s) of ", grain_samples, " sample(s) of up to ",
                        longest_sample, " tokens is too large: ", kMostTokensAtOnce,
                        " tokens are the most. Set window.micro_batch_grains (which does not change the result) or ",
                        "window.grain_samples lower."));
    }
}

}  // namespace

int64_t RunInputs::longest_sample() const {
    return std::max(train->longest(), validation ? validation->longest() : 0);
}

int64_t default_grain_samples(int64_t longest_sample) {
    return (kGrainTokens + longest_sample - 1) / longest_sample;
}

std::unique_ptr<Tokenizer> open_run_tokenizer(const Settings& settings) {
    if (!settings.data.tokenizer.empty()) {
        return open_tokenizer(settings.data.tokenizer);
    }
    if (!settings.model.from.empty() && has_tokenizer(settings.model.from)) {
        return open_tokenizer(settings.model.from);
    }
    const auto files = expand_files(settings.data.train);
    if (!files.empty() && std::all_of(files.begin(), files.end(), holds_ids)) {
        return nullptr;
    }
    return std::make_unique<ByteTokenizer>();
}

ModelConfig run_model_config(const Settings& settings, const Tokenizer* tokenizer, int64_t longest) {
    return settings.model.from.empty()
               ? preset_config_for(settings.model.preset, tokenizer == nullptr ? 0 : tokenizer->vocabulary())
               : read_model_config(settings.model.from, longest);
}

void copy_tokenizer_files(const Settings& settings, const std::filesystem::path& model_folder) {
    namespace fs = std::filesystem;
    const fs::path given = settings.data.tokenizer;
    const auto copy = [&](const fs::path& from, const std::string& name) {
        if (fs::is_regular_file(from)) {
            write_text(model_folder / name, read_text(from));
        }
    };
    if (fs::is_regular_file(given)) {
        copy(given, given.extension() == ".json" ? "tokenizer.json" : given.filename().string());
        return;
    }
    const fs::path folder = given.empty() ? fs::path(settings.model.from) : given;
    for (const char* name : {"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json",
                             "generation_config.json"}) {
        copy(folder / name, name);
    }
}

Corpus open_run_files(const Settings& settings, const std::vector<std::string>& names, const Tokenizer* tokenizer,
                      const CacheProgressCallback& progress) {
    const auto files = expand_files(names);
    const bool only_rows = std::all_of(files.begin(), files.end(), [](const std::filesystem::path& file) {
        return file.extension() == ".safetensors";
    });
    if (only_rows && settings.data.layout == "packed" && settings.data.validation_fraction == 0) {
        return {.train = open_token_rows(files), .validation = nullptr, .rebuilt_because = {}};
    }
    const ByteTokenizer bytes;  // not asked when all files hold ids
    constexpr int64_t kMostIds = int64_t{1} << 31;
    return open_corpus({.files = files,
                        .cache_folder = cache_folder_of(settings),
                        .sequence_length = settings.data.sequence_length,
                        .layout = settings.data.layout == "padded" ? Layout::padded : Layout::packed,
                        .reset_attention = settings.data.reset_attention,
                        .validation_fraction = settings.data.validation_fraction,
                        .reader = {.chat_format = settings.data.chat_format, .skip_bad = settings.data.skip_bad},
                        .end_token = {},
                        .vocabulary = tokenizer == nullptr ? kMostIds : 0,
                        .threads = static_cast<int>(settings.compute.threads),
                        .progress = progress},
                       tokenizer == nullptr ? bytes : *tokenizer);
}

std::unique_ptr<Dataset> open_validation_data(const Settings& settings, const Tokenizer* tokenizer,
                                              const CacheProgressCallback& progress) {
    if (!settings.data.validation.empty()) {
        Settings whole = settings;
        whole.data.validation_fraction = 0;
        return open_run_files(whole, settings.data.validation, tokenizer, told_as_validation(progress)).train;
    }
    if (!settings.data.train.empty()) {
        return settings.data.validation_fraction > 0
                   ? open_run_files(settings, settings.data.train, tokenizer, progress).validation
                   : nullptr;
    }
    return story_data(*tokenizer, kFirstValidationStory, kValidationStoryBytes, settings.data.sequence_length);
}

void check_tokens(const Dataset& data, const ModelConfig& model) {
    const Dataset::LargestToken largest = data.largest_token();
    if (largest.token >= model.vocabulary) {
        throw Error(
            cat(largest.where, " holds token ", largest.token, ", but the model's vocabulary has only ",
                model.vocabulary, " words (0 to ", model.vocabulary - 1,
                "). The data was made with another tokenizer than the model: name the model's own in data.tokenizer, "
                "or start from a model with a larger vocabulary."));
    }
}

RunInputs open_inputs(Settings settings, const CacheProgressCallback& progress) {
    RunInputs inputs;
    inputs.tokenizer = open_run_tokenizer(settings);
    if (settings.data.train.empty()) {
        inputs.train = story_data(*inputs.tokenizer, 0, kStoryBytes, settings.data.sequence_length);
    } else {
        Corpus corpus = open_run_files(settings, settings.data.train, inputs.tokenizer.get(), progress);
        inputs.train = std::move(corpus.train);
        inputs.validation = settings.data.validation.empty() ? std::move(corpus.validation) : nullptr;
    }
    if (!inputs.validation) {
        inputs.validation = open_validation_data(settings, inputs.tokenizer.get(), progress);
    }
    const int64_t longest = inputs.longest_sample();
    if (longest == 0) {
        throw Error("the training data counts no token at all: every label is masked. Check the labels.");
    }
    inputs.model = run_model_config(settings, inputs.tokenizer.get(), longest);
    if (longest > inputs.model.positions) {
        throw Error(cat("data.sequence_length: samples have up to ", longest, " tokens, but the model has only ",
                        inputs.model.positions, " positions. Set data.sequence_length to at most that."));
    }
    check_tokens(*inputs.train, inputs.model);
    if (inputs.validation) {
        check_tokens(*inputs.validation, inputs.model);
    }
    if (settings.window.grain_samples == 0) {
        settings.window.grain_samples = default_grain_samples(longest);
    }
    check_micro_batch(settings.window.grain_samples, settings.window.micro_batch_grains, longest);
    inputs.settings = std::move(settings);
    return inputs;
}

}  // namespace accrue
