#include "accrue/data/tokenizers/visible_text.h"

#include "accrue/data/tokenizers/unicode.h"

namespace accrue {
namespace {

bool drives_terminals(char32_t character) {
    const bool is_c0 = character < 0x20 && character != U'\n' && character != U'\t';
    return is_c0 || (character >= 0x7F && character < 0xA0);
}

void append_spelled(std::string& text, unsigned value) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += "\\x";
    text += kDigits[value >> 4U & 0xFU];
    text += kDigits[value & 0xFU];
}

}  // namespace

std::string visible_text(std::string_view text) {
    std::string visible;
    visible.reserve(text.size());
    for (size_t place = 0; place < text.size();) {
        const Character character = character_at(text, place);
        if (character.value == Character::kInvalid) {
            append_spelled(visible, static_cast<unsigned char>(text[place]));
        } else if (drives_terminals(character.value)) {
            append_spelled(visible, static_cast<unsigned>(character.value));
        } else {
            visible += text.substr(place, character.size);
        }
        place += character.size;
    }
    return visible;
}

}  // namespace accrue
