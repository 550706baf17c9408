#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "accrue/data/samples/corpus.h"
#include "accrue/data/samples/dataset.h"
#include "accrue/data/tokenizers/tokenizer.h"
#include "accrue/model/families.h"
#include "accrue/train/device_choice.h"
#include "accrue/train/settings.h"

namespace accrue {

// Everything a run reads before it computes: its settings with nothing left open, its model's shape and its data, all
// checked against each other.
struct RunInputs {
    Settings settings;
    std::shared_ptr<const ModelSpec> model;
    std::unique_ptr<Dataset> train;
    std::unique_ptr<Dataset> validation;   // none = no validation
    std::unique_ptr<Tokenizer> tokenizer;  // none = token ids whose text is not known
    int64_t conversations = 0;             // documents of the training data that data.chat_format made text of
    std::vector<std::string> notes = {};   // what a user should know before the run

    [[nodiscard]] int64_t longest_sample() const;
};

// `progress` is told how far tokenizing is, the first time a text is seen, and what was found or built. The model is of
// one of the families. `workers`: of this machine, which compute.
[[nodiscard]] RunInputs open_inputs(Settings settings, const CacheProgressCallback& progress = nullptr,
                                    const ModelFamilies& families = known_families(),
                                    DeviceUse use = DeviceUse::compute, int64_t workers = 1);

// Where a run keeps what it has tokenized: beside it, so that the next run finds it.
[[nodiscard]] std::filesystem::path token_cache_of(const Settings& settings);

// The settings as a plan needs them: a window never crosses the end of an epoch, so none is larger than the data.
[[nodiscard]] Settings settings_to_plan(const RunInputs& inputs);

// Samples of a grain where window.grain_samples leaves it open: as many as make the tokens that the device wants, about
// 1,024 of a CPU and 8,192 of a GPU.
[[nodiscard]] int64_t default_grain_samples(const Settings::Compute& compute, int64_t longest_sample);

// The tokenizer a run speaks: data.tokenizer, or the one in the model's folder, or, for a preset, bytes. None for token
// ids without any; text for a model folder without one is an error.
[[nodiscard]] std::unique_ptr<Tokenizer> open_run_tokenizer(const Settings& settings);

// The model a run trains: a folder's, or a preset or a shape whose vocabulary grows to the tokenizer's. Where the folder is
// gone, the run's newest checkpoint knows it.
[[nodiscard]] std::shared_ptr<const ModelSpec> run_model(const Settings& settings, const Tokenizer* tokenizer,
                                                         int64_t longest,
                                                         const ModelFamilies& families = known_families());

// Puts the tokenizer's files beside a trained model, so that it can be used elsewhere. Nothing to do for bytes.
void copy_tokenizer_files(const Settings& settings, const std::filesystem::path& model_folder);

// The same for a run that begins, so that it can go on when the tokenizer's own place is gone. Makes the folder, if there is
// anything to keep.
void keep_tokenizer(const Settings& settings, const std::filesystem::path& folder);

// Files as samples, by the settings: rows of .safetensors as they are, everything else through the token cache.
[[nodiscard]] Corpus open_run_files(const Settings& settings, const std::vector<std::string>& names,
                                    const Tokenizer* tokenizer, const CacheProgressCallback& progress = nullptr);

// What a run is validated on; may be none.
[[nodiscard]] std::unique_ptr<Dataset> open_validation_data(const Settings& settings, const Tokenizer* tokenizer,
                                                            const CacheProgressCallback& progress = nullptr);

// What a user should know of data before it is used: what is cut off, what counts nothing. Most often nothing.
[[nodiscard]] std::vector<std::string> notes_on(const Dataset& data, const std::string& name);

// A token that the model has no row for is an error that names file, place, token and vocabulary.
void check_tokens(const Dataset& data, const ModelSpec& model);

}  // namespace accrue
