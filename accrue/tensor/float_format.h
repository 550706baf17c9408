#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace accrue {

// How numbers stand in files that leave accrue.
enum class FloatFormat { fp32, bf16, fp16 };

[[nodiscard]] constexpr int64_t bytes_of(FloatFormat format) {
    return format == FloatFormat::fp32 ? 4 : 2;
}
// "fp32", "bf16", "fp16".
[[nodiscard]] std::string_view name_of(FloatFormat format);
// "F32", "BF16", "F16": the names that safetensors and GGUF share.
[[nodiscard]] std::string_view stored_name_of(FloatFormat format);
// The format of a name like "bf16"; an error lists the names.
[[nodiscard]] FloatFormat parse_float_format(std::string_view name);

// Numbers rounded to a format, to nearest and ties to even, as the bytes of a file. A number that is or becomes
// infinite or no number is an error that names the tensor.
[[nodiscard]] std::vector<std::byte> stored_bytes(std::span<const float> values, FloatFormat format,
                                                  std::string_view tensor);
// The way back, which is exact. `bytes` holds as many numbers as `into`.
void read_stored(std::span<const std::byte> bytes, FloatFormat format, std::span<float> into);

}  // namespace accrue
