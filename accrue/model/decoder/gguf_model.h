#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "accrue/model/decoder/config.h"
#include "accrue/model/model_spec.h"

namespace accrue {

// A decoder read from a GGUF file.
struct GgufModel {
    ModelConfig config;
    std::vector<float> weights;  // in the layout of decoder_parameters(config)
};

// As read_gguf() (export.h), with the configuration itself.
[[nodiscard]] GgufModel read_gguf_model(const std::filesystem::path& file);

// The way back. Vectors and learned positions stay fp32. Returns the bytes of the file, which appears whole or not at all.
int64_t write_gguf_model(const ModelConfig& config, const ParameterList& parameters, std::span<const float> weights,
                         const GgufTarget& target);

}  // namespace accrue
