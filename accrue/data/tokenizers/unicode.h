#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace accrue {

// A character of a UTF-8 text and how many bytes it takes.
struct Character {
    static constexpr char32_t kInvalid = 0xFFFFFFFF;
    char32_t value = kInvalid;
    size_t size = 1;
};

// The character that begins at a place of a text; kInvalid and one byte where the bytes are no UTF-8 (overlong forms,
// surrogates and values above U+10FFFF are none).
[[nodiscard]] Character character_at(std::string_view text, size_t place);
// The character that ends just before a place.
[[nodiscard]] Character character_before(std::string_view text, size_t place);
[[nodiscard]] bool is_utf8(std::string_view text);
// The text with each byte that is no UTF-8 replaced by an ASCII control character (U+001A), so that places stay the same.
[[nodiscard]] std::string with_invalid_bytes_replaced(std::string_view text);
void append_utf8(std::string& text, char32_t character);

// Unicode's White_Space, which is what \s means in tokenizer files.
[[nodiscard]] bool is_white_space(char32_t character);
// A letter, mark, decimal digit or joining character, which is what single_word looks at beside an added token.
[[nodiscard]] bool is_word_character(char32_t character);

// Without the white space at both ends.
[[nodiscard]] std::string_view trimmed(std::string_view text);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
// The text in a normal form. Bytes that are no UTF-8 stay as they are.
[[nodiscard]] std::string normalized(std::string_view text, NormalForm form);

}  // namespace accrue
