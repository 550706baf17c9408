#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "accrue/base/long_work.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/train/engine.h"
#include "accrue/train/inputs.h"
#include "accrue/train/numerics.h"

namespace accrue {

// What the law says the weights depend on, as key -> value, for checking that a checkpoint belongs to a run.
[[nodiscard]] std::string definition_of(const RunInputs& inputs, const ParameterList& parameters);

// Writes checkpoints/step-N with all that a run needs to go on bit for bit: weights, moments, position, units,
// counters, and if a window is open its sums and which grains are in them; beside it the model's configuration and, where
// they are given, the numerics of the run. Counts bytes.
void save_state(Engine& engine, const std::string& definition, const std::filesystem::path& checkpoints,
                const std::optional<NumericsRecord>& numerics = std::nullopt, const LongWork& work = {});

// Fills an engine from a checkpoint. An error says if it was made by another model, data or definition. Counts bytes.
void load_state(Engine& engine, const std::string& definition, const CheckpointReader& checkpoint,
                const LongWork& work = {});
// The same from its folder. An error says if it is damaged.
void load_state(Engine& engine, const std::string& definition, const std::filesystem::path& checkpoint);

// Where a checkpoint stands: optimizer steps done, and where in the data the next window begins.
struct CheckpointPlace {
    int64_t step = 0;
    DataPosition position;
};
[[nodiscard]] CheckpointPlace place_of_checkpoint(const std::filesystem::path& checkpoint);

// The numerics that a checkpoint was computed with; none if it does not say.
[[nodiscard]] std::optional<NumericsRecord> numerics_of_checkpoint(const std::filesystem::path& checkpoint);

// The config.json of the model in a checkpoint; none if it does not say.
[[nodiscard]] std::optional<std::string> config_of_checkpoint(const std::filesystem::path& checkpoint);

// The weights alone, for sampling and evaluating.
void load_weights_of_checkpoint(const CheckpointReader& checkpoint, const ParameterList& parameters,
                                const PutWeights& put, const LongWork& work = {});

}  // namespace accrue
