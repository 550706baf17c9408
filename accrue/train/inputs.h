#pragma once

#include <memory>
#include <string>

#include "accrue/data/dataset.h"
#include "accrue/model/config.h"
#include "accrue/train/settings.h"

namespace accrue {

// Everything a run reads before it computes: its settings with nothing left open, its model's shape and its data, all
// checked against each other.
struct RunInputs {
    Settings settings;
    ModelConfig model;
    std::unique_ptr<Dataset> train;
    std::unique_ptr<Dataset> validation;  // none = no validation
    bool has_text = false;                // samples can be read and written as text

    [[nodiscard]] int64_t longest_sample() const;
};

[[nodiscard]] RunInputs open_inputs(Settings settings);

// The datasets that settings name, without the checks against a model.
[[nodiscard]] std::unique_ptr<Dataset> open_training_data(const Settings& settings);
[[nodiscard]] std::unique_ptr<Dataset> open_validation_data(const Settings& settings);  // may be none

// A token that the model has no row for is an error that names file, place, token and vocabulary.
void check_tokens(const Dataset& data, const ModelConfig& model);

}  // namespace accrue
