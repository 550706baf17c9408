#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace accrue {

// The numbers of GGUF that its reader and its writer share.
inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr uint32_t kGgufVersion = 3;
inline constexpr std::string_view kGgufAlignmentKey = "general.alignment";
inline constexpr int64_t kGgufAlignment = 32;  // where general.alignment does not say otherwise
inline constexpr size_t kGgufLongestKey = 65535;
inline constexpr size_t kGgufLongestName = 63;  // of a tensor: ggml keeps 64 bytes, the last of them 0
inline constexpr uint32_t kGgufMostDimensions = 4;
inline constexpr uint32_t kGgufArrayType = 9;

[[nodiscard]] constexpr int64_t aligned(int64_t place, int64_t alignment) {
    return (place + alignment - 1) / alignment * alignment;
}

// The number of a list's element type from the place of its alternative in GgufArray.
[[nodiscard]] constexpr uint32_t element_type_of(size_t alternative) {
    return static_cast<uint32_t>(alternative < kGgufArrayType ? alternative : alternative + 1);
}

}  // namespace accrue
