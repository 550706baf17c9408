#include "accrue/train/inputs.h"

#include <algorithm>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/replace_folder.h"
#include "accrue/data/documents/document.h"
#include "accrue/data/documents/input_stream.h"
#include "accrue/data/documents/stories.h"
#include "accrue/data/tokenizers/tokenizer_files.h"
#include "accrue/train/chat_choice.h"
#include "accrue/train/epoch.h"
#include "accrue/train/initial_weights.h"
#include "accrue/train/run_folder.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/state.h"

namespace accrue {
namespace {

// The built-in corpus: enough for the default 200 windows to see nothing twice, and stories that training never sees.
constexpr int64_t kStoryBytes = 1'800'000;
constexpr int64_t kValidationStoryBytes = 16'384;
constexpr uint64_t kFirstValidationStory = 1'000'000'000;

constexpr const char* kHowToChoose =
    " Choose one of them all the same with data.chat_format (of accrue eval: --chat-format); a model that is trained "
    "so "
    "describes it.";

std::unique_ptr<Dataset> story_data(const Tokenizer& tokenizer, uint64_t first, int64_t bytes,
                                    int64_t sequence_length) {
    return dataset_of_tokens(tokenizer.encode(stories(first, bytes), Special::without), sequence_length,
                             "built-in stories");
}

// Files that hold token ids already.
bool holds_ids(const std::filesystem::path& file) {
    const std::string name = without_compression(file).extension().string();
    return name == ".safetensors" || name == ".bin";
}

// Text without a tokenizer would be trained on as bytes, which means something else to every model that was not.
void check_are_ids(const std::vector<std::filesystem::path>& files) {
    const auto text = std::find_if_not(files.begin(), files.end(), holds_ids);
    if (text != files.end()) {
        throw Error(cat(text->string(),
                        " is text, but no tokenizer is known for it. Name the model's in data.tokenizer, put ",
                        "it into the model's folder, or give files of token ids (.bin, .safetensors)."));
    }
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

// Where the tokenizer is: what the settings name, or, once that is gone, what the run kept of it.
std::filesystem::path tokenizer_place(const Settings& settings) {
    namespace fs = std::filesystem;
    fs::path given = settings.data.tokenizer.empty() ? settings.model.from : settings.data.tokenizer;
    if (given.empty() || given == "byte" || fs::exists(given) || settings.run.folder.empty()) {
        return given;
    }
    const fs::path kept = RunFolder{settings.run.folder}.tokenizer();
    if (!fs::is_directory(kept)) {
        return given;
    }
    // A file of ranks may have any name, and then lies there alone.
    return tokenizer_file_in(kept) ? kept : fs::directory_iterator(kept)->path();
}

// The model as the run's newest checkpoint has it that can tell, null if none can: in this all of a run agree, and which of
// them is damaged is found and said later.
std::shared_ptr<const ModelSpec> stored_model(const Settings& settings, int64_t longest,
                                              const ModelFamilies& families) {
    const RunFolder folder{settings.run.folder};
    std::vector<int64_t> steps;
    if (!settings.run.folder.empty()) {
        steps = list_checkpoints(folder.checkpoints());
    }
    for (; !steps.empty(); steps.pop_back()) {
        const std::filesystem::path checkpoint = checkpoint_path(folder.checkpoints(), steps.back());
        if (is_state_damaged(checkpoint)) {
            continue;
        }
        const auto json = config_of_checkpoint(checkpoint);
        return json ? families.parse(*json, checkpoint.string(), longest) : nullptr;
    }
    return nullptr;
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

std::filesystem::path token_cache_of(const Settings& settings) {
    const std::filesystem::path run = settings.run.folder.empty() ? "runs/next" : settings.run.folder;
    return run.parent_path() / "token-cache";
}

int64_t RunInputs::longest_sample() const {
    return std::max(train->longest(), validation ? validation->longest() : 0);
}

Settings settings_to_plan(const RunInputs& inputs) {
    Settings settings = inputs.settings;
    const int64_t samples = inputs.train->size();
    settings.window.samples = std::min(settings.window.samples, samples);
    const int64_t longest = inputs.longest_sample();
    if (settings.window.tokens / longest >= samples) {
        settings.window.tokens = samples * longest;
    }
    return settings;
}

int64_t default_grain_samples(const Settings::Compute& compute, int64_t longest_sample) {
    const int64_t tokens = make_workspace(device_of(compute), 1)->traits().grain_tokens;
    return (tokens + longest_sample - 1) / longest_sample;
}

std::unique_ptr<Tokenizer> open_run_tokenizer(const Settings& settings) {
    const std::filesystem::path place = tokenizer_place(settings);
    if (!settings.data.tokenizer.empty() || std::filesystem::is_regular_file(place) || tokenizer_file_in(place)) {
        return open_tokenizer(place);
    }
    const auto files = expand_files(settings.data.train);
    if (!files.empty() && std::all_of(files.begin(), files.end(), holds_ids)) {
        return nullptr;
    }
    if (!settings.model.from.empty()) {
        throw Error(
            cat("the model folder ", settings.model.from, " has no tokenizer, and ",
                files.empty() ? "the built-in stories are" : "the training data is",
                " text. Give the one that the model was trained with: data.tokenizer = \"PATH\" (a tokenizer.json, "
                "tokenizer.model or rank file, or a folder that has one), or data.tokenizer = \"byte\" if the model "
                "reads bytes."));
    }
    return std::make_unique<ByteTokenizer>();
}

std::shared_ptr<const ModelSpec> run_model(const Settings& settings, const Tokenizer* tokenizer, int64_t longest,
                                           const ModelFamilies& families) {
    if (!settings.model.from.empty() && !std::filesystem::exists(settings.model.from)) {
        if (auto stored = stored_model(settings, longest, families)) {
            return stored;
        }
    }
    if (!settings.model.from.empty()) {
        return families.read(settings.model.from, longest);
    }
    const Words words = tokenizer == nullptr
                            ? Words{}
                            : Words{.count = tokenizer->vocabulary(), .end_of_document = tokenizer->end_of_document()};
    return families.shaped(settings.model.preset, settings.model.shape, words);
}

void copy_tokenizer_files(const Settings& settings, const std::filesystem::path& model_folder) {
    namespace fs = std::filesystem;
    const fs::path given = tokenizer_place(settings);
    const auto copy = [&](const fs::path& from, const std::string& name) {
        if (fs::is_regular_file(from)) {
            write_text(model_folder / name, read_text(from));
        }
    };
    if (fs::is_regular_file(given) && !is_vocabulary_file(given)) {
        copy(given, given.extension() == ".json" ? "tokenizer.json" : given.filename().string());
        return;
    }
    const fs::path folder = fs::is_directory(given) ? given : given.parent_path();
    for (const char* name : {"tokenizer.json", "tokenizer.model", "tokenizer.tiktoken", "qwen.tiktoken", "vocab.json",
                             "merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                             "generation_config.json", "chat_template.jinja"}) {
        copy(folder / name, name);
    }
    // How a vocab.json cuts text may depend on the config.json beside it, and the run's is another.
    if (const auto file = tokenizer_file_in(folder); file && is_vocabulary_file(*file)) {
        write_text(model_folder / "tokenizer.json", tokenizer_json_of_vocabulary(folder));
    }
}

void keep_tokenizer(const Settings& settings, const std::filesystem::path& folder) {
    replace_folder(folder, [&](const std::filesystem::path& aside) { copy_tokenizer_files(settings, aside); });
    if (std::filesystem::is_empty(folder)) {
        std::filesystem::remove(folder);
    }
}

Corpus open_run_files(const Settings& settings, const std::vector<std::string>& names, const Tokenizer* tokenizer,
                      const CacheProgressCallback& progress) {
    const auto files = expand_files(names);
    const bool only_rows = std::all_of(files.begin(), files.end(), [](const std::filesystem::path& file) {
        return file.extension() == ".safetensors";
    });
    if (only_rows && settings.data.layout == Layout::packed && settings.data.validation_fraction == 0) {
        return {.train = open_token_rows(files), .validation = nullptr, .rebuilt_because = {}};
    }
    const ChatChoice chat = choose_chat_format(settings);
    const UnknownTokenizer unknown;
    if (tokenizer == nullptr) {
        check_are_ids(files);
    }
    return open_corpus({.files = files,
                        .cache_folder = token_cache_of(settings),
                        .sequence_length = settings.data.sequence_length,
                        .layout = settings.data.layout,
                        .reset_attention = settings.data.reset_attention,
                        .validation_fraction = settings.data.validation_fraction,
                        .reader = {.chat_format = chat.format ? std::string(word_of(*chat.format)) : "",
                                   .skip_bad = settings.data.skip_bad,
                                   .chat_fault = chat.fault.empty() ? "" : chat.fault + kHowToChoose},
                        .end_token = {},
                        .threads = static_cast<int>(settings.compute.threads),
                        .progress = progress},
                       tokenizer == nullptr ? unknown : *tokenizer);
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

std::vector<std::string> notes_on(const Dataset& data, const std::string& name) {
    const Dataset::LeftOut left_out = data.left_out();
    std::vector<std::string> notes;
    if (left_out.cut_documents > 0) {
        notes.push_back(cat(name, ": ", left_out.cut_documents, " of ", data.size(),
                            " documents are longer than data.sequence_length and are cut: ", left_out.cut_tokens,
                            " counted tokens are left out"));
    }
    if (left_out.uncounted_samples > 0) {
        notes.push_back(cat(name, ": ", left_out.uncounted_samples, " of ", data.size(), " samples count nothing"));
    }
    return notes;
}

void check_tokens(const Dataset& data, const ModelSpec& model) {
    const Dataset::LargestToken largest = data.largest_token();
    if (largest.token >= model.vocabulary()) {
        throw Error(
            cat(largest.where, " holds token ", largest.token, ", but the model's vocabulary has only ",
                model.vocabulary(), " words (0 to ", model.vocabulary() - 1,
                "). The data was made with another tokenizer than the model: name the model's own in data.tokenizer, "
                "or start from a model with a larger vocabulary."));
    }
}

RunInputs open_inputs(Settings settings, const CacheProgressCallback& progress, const ModelFamilies& families,
                      DeviceUse use, int64_t workers) {
    RunInputs inputs;
    inputs.tokenizer = open_run_tokenizer(settings);
    const ChatChoice chat = choose_chat_format(settings);
    settings.data.chat_format = chat.format;
    if (settings.data.train.empty()) {
        inputs.train = story_data(*inputs.tokenizer, 0, kStoryBytes, settings.data.sequence_length);
    } else {
        Corpus corpus = open_run_files(settings, settings.data.train, inputs.tokenizer.get(), progress);
        inputs.train = std::move(corpus.train);
        inputs.conversations = corpus.conversations;
        inputs.notes = corpus.conversations > 0 ? chat_notes(chat, inputs.tokenizer.get()) : std::vector<std::string>();
        inputs.validation = settings.data.validation.empty() ? std::move(corpus.validation) : nullptr;
    }
    if (!inputs.validation) {
        inputs.validation = open_validation_data(settings, inputs.tokenizer.get(), progress);
    }
    const int64_t longest = inputs.longest_sample();
    inputs.model = run_model(settings, inputs.tokenizer.get(), longest, families);
    if (longest > inputs.model->positions()) {
        throw Error(cat("data.sequence_length: samples have up to ", longest, " tokens, but the model has only ",
                        inputs.model->positions(), " positions. Set data.sequence_length to at most that",
                        settings.model.from.empty() ? ", or model.positions to more." : "."));
    }
    check_tokens(*inputs.train, *inputs.model);
    if (inputs.validation) {
        check_tokens(*inputs.validation, *inputs.model);
    }
    // Decided once: a run that is continued finds it in its run.toml and does not look at the folder's weights again.
    if (!settings.model.weights && !settings.model.from.empty()) {
        settings.model.weights = starts_fresh(settings.model) ? InitialWeights::fresh : InitialWeights::loaded;
    }
    check_epoch(settings.window, *inputs.train);
    if (std::string note = settle_device(settings, inputs.model, longest, use, workers); !note.empty()) {
        inputs.notes.push_back(std::move(note));
    }
    if (settings.window.grain_samples == 0) {
        settings.window.grain_samples = default_grain_samples(settings.compute, longest);
    }
    check_micro_batch(settings.window.grain_samples, settings.window.micro_batch_grains, longest);
    inputs.settings = std::move(settings);
    return inputs;
}

}  // namespace accrue
