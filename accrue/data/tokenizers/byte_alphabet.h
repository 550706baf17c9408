#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace accrue {

// Byte-level vocabularies spell each byte as one printable character, as GPT-2 chose them: a space is "Ġ".

// How such a vocabulary spells bytes.
[[nodiscard]] std::string spelled(std::string_view bytes);
// The bytes that are spelled so; nothing if a character stands for no byte.
[[nodiscard]] std::optional<std::string> bytes_of_spelling(std::string_view spelling);

}  // namespace accrue
