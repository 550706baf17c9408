#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace accrue {

// A number of bytes for people: "512 B", "1.50 GiB".
[[nodiscard]] std::string format_bytes(int64_t bytes);
// The bytes that a text like "16GiB", "1.5 MiB", "2GB" (powers of 1000), "4096" or "4096 B" names, in any case of
// letters; nothing if it is no such text or more than 64 bits hold.
[[nodiscard]] std::optional<int64_t> parse_bytes(std::string_view text);

// A number of bytes and how somebody wrote it, so that it can be shown again in the same way.
struct ByteSize {
    std::string text;
    int64_t bytes = 0;

    bool operator==(const ByteSize&) const = default;
};

// What parse_bytes understands, with its text.
[[nodiscard]] std::optional<ByteSize> parse_byte_size(std::string text);

}  // namespace accrue
