#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "accrue/model/model_spec.h"
#include "accrue/tensor/safetensors.h"

namespace accrue {

// Does a folder with a config.json have weights? An error if it has them in a form that is not read, or not all of them.
[[nodiscard]] bool has_model_weights(const std::filesystem::path& folder);

// Puts the weights of folder/model.safetensors in their places, or of the shards that folder/model.safetensors.index.json names.
// Errors name file and tensor: missing, of another shape or type, unknown to the model, or not finite. Each tensor is one
// thread's; counts bytes of weights.
void load_model_weights(const std::filesystem::path& folder, const ParameterList& parameters, const PutWeights& put,
                        const LongWork& work = {});

// Writes a Hugging Face model folder: config.json and model.safetensors, nothing that varies from run to run, and what
// `add_files` puts beside them. The folder appears whole, and one that is there already stays until then. `wrote` is called
// with the bytes of each piece.
void write_model_folder(const std::filesystem::path& folder, const ModelSpec& model, const ByteSource& weights,
                        const std::function<void(int64_t bytes)>& wrote = nullptr,
                        const std::function<void(const std::filesystem::path& folder)>& add_files = nullptr);

// One tensor's numbers in a flat buffer.
[[nodiscard]] std::span<const float> values_of(const Parameter& parameter, std::span<const float> flat);

// The tensors of flat weights by name, to be written.
[[nodiscard]] std::vector<TensorToStore> named_tensors(const ParameterList& parameters, const ByteSource& weights);

}  // namespace accrue
