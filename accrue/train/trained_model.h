#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "accrue/base/pool.h"
#include "accrue/data/tokenizers/tokenizer.h"
#include "accrue/model/families.h"
#include "accrue/train/settings.h"

namespace accrue {

// A trained model opened for reading: to sample from it or to measure its loss.
class TrainedModel {
public:
    // A run folder (its model/, or the newest whole checkpoint of an unfinished run) or a Hugging Face model folder.
    // `longest` = tokens a sequence may have; 0 = as many as the run's sequences, or the model's positions up to 1,024.
    // `device`: nothing = the GPU of the run, of a model folder the first one, where it is here and has room; else the
    // processor. `note` gets a line where a run's GPU cannot be used, and for each damaged checkpoint that is passed over.
    TrainedModel(const std::filesystem::path& folder, int64_t longest, int64_t threads,
                 const std::optional<DeviceName>& device, const std::function<void(const std::string& line)>& note,
                 const ModelFamilies& families = known_families());
    ~TrainedModel();

    [[nodiscard]] const std::shared_ptr<const ModelSpec>& spec() const;
    [[nodiscard]] Model& model();
    // The model as what text comes from; an error if it is of a family that no text comes from.
    [[nodiscard]] Generator& generator();
    [[nodiscard]] Weights weights() const;
    // The fp32 master, flat.
    [[nodiscard]] std::vector<float> weights_on_host() const;
    [[nodiscard]] int64_t longest() const;
    // What it computes on, for people.
    [[nodiscard]] std::string device() const;
    // What it speaks: the tokenizer beside the weights or of the run; none = only token ids are known.
    [[nodiscard]] const Tokenizer* tokenizer() const;
    // The settings of the run it came from; nothing for a plain model folder.
    [[nodiscard]] const std::optional<Settings>& settings() const;

private:
    [[nodiscard]] static DeviceName usual_device_for(const std::optional<Settings>& settings, int64_t bytes_on_gpu,
                                                     const std::function<void(const std::string&)>& note);

    struct Reading;
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

// The tokenizer of such a folder, without its weights.
[[nodiscard]] std::unique_ptr<Tokenizer> open_tokenizer_of(const std::filesystem::path& folder);

}  // namespace accrue
