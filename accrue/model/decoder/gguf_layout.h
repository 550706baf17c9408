#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "accrue/model/decoder/config.h"
#include "accrue/model/parameters.h"

namespace accrue {

// How one parameter stands in a GGUF file: llama.cpp has names, and sometimes orders, of its own.
struct GgufPlace {
    enum class Order {
        same,
        transposed,   // GPT-2 keeps [in, out], ggml [out, in]
        interleaved,  // rotary pairs side by side, where Hugging Face has them half a head apart
    };
    std::string name;
    std::vector<int64_t> shape;
    Order order = Order::same;
    int64_t heads = 1;         // that are interleaved, each on its own
    bool always_fp32 = false;  // vectors and learned positions, which llama.cpp wants so
};

// llama.cpp's name for the family: "llama" (of Mistral too), "qwen2", "qwen3", "gpt2". An error if its form of the
// family cannot hold this model.
[[nodiscard]] std::string gguf_architecture(const ModelConfig& config);

[[nodiscard]] GgufPlace gguf_place(const ModelConfig& config, const Parameter& parameter);

// A parameter's numbers in the order of the file, and back.
[[nodiscard]] std::vector<float> ordered_for_gguf(const GgufPlace& place, std::span<const float> values);
void order_from_gguf(const GgufPlace& place, std::span<const float> stored, std::span<float> values);

// The name of the tensor with the factors that llama.cpp divides rotary frequencies by, and these factors.
inline constexpr const char* kRopeFactorsName = "rope_freqs.weight";
[[nodiscard]] std::vector<float> rope_factors(const RopeConfig& rope, int64_t head_size);

}  // namespace accrue
