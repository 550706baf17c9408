#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "accrue/base/output_path.h"
#include "accrue/model/model_spec.h"

namespace accrue {

// What to write a model as, and where.
struct ExportRequest {
    enum class Kind { hf, gguf };
    Kind kind = Kind::hf;
    FloatFormat format = FloatFormat::bf16;
    std::filesystem::path output;         // a folder for hf, a file for gguf
    Overwrite overwrite = Overwrite::no;  // yes: whatever is there is replaced, as a whole; see check_output_folder()
    // For gguf: the vocabulary; without one the file says that it has none.
    std::optional<GgufTokenizer> tokenizer = std::nullopt;
    // For hf: files to stand beside the weights (tokenizer.json and the like), copied under their own names.
    std::vector<std::filesystem::path> files = {};
};

// What was written.
struct ExportReport {
    int64_t tensors = 0;
    int64_t parameters = 0;
    int64_t bytes = 0;  // of all files
};

// Writes a model for other programs: a Hugging Face folder (config.json, model.safetensors) with all tensors in the
// format asked for, or a GGUF file as llama.cpp's converter would make it (ModelSpec::write_gguf). `weights` is flat, in
// the layout of the model's parameters. What is written appears whole or not at all. A
// number that does not fit the format is an error that names the tensor; so is an output that exists already, unless it
// may be replaced. The old one stays whole until the new one is.
ExportReport export_model(const ModelSpec& model, std::span<const float> weights, const ExportRequest& request);

// The way back from a GGUF file; of llama.cpp's architectures those that are decoders here. Errors name file and key or
// tensor: an architecture that is not known, a tensor that is missing, of another shape, quantized, unknown to the model,
// or not finite.
[[nodiscard]] ModelWithWeights read_gguf(const std::filesystem::path& file);

}  // namespace accrue
