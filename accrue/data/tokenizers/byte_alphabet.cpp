#include "accrue/data/tokenizers/byte_alphabet.h"

#include <array>

#include "accrue/data/tokenizers/unicode.h"

namespace accrue {
namespace {

// Printable bytes of Latin-1 stand for themselves; the others, in order, take U+0100 and up.
struct Alphabet {
    static constexpr char32_t kLetters = 0x144;
    std::array<char32_t, 256> letter{};
    std::array<int16_t, kLetters> byte{};

    constexpr Alphabet() {
        byte.fill(-1);
        char32_t next = 0x100;
        for (char32_t value = 0; value < 256; ++value) {
            const bool printable = (value >= 33 && value <= 126) || (value >= 161 && value != 173);
            letter[value] = printable ? value : next++;
            byte[letter[value]] = static_cast<int16_t>(value);
        }
    }
};

constexpr Alphabet kAlphabet;

}  // namespace

std::string spelled(std::string_view bytes) {
    std::string spelling;
    for (const char byte : bytes) {
        append_utf8(spelling, kAlphabet.letter[static_cast<unsigned char>(byte)]);
    }
    return spelling;
}

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
    std::string bytes;
    for (size_t place = 0; place < spelling.size();) {
        const Character character = character_at(spelling, place);
        if (character.value >= Alphabet::kLetters || kAlphabet.byte[character.value] < 0) {
            return std::nullopt;
        }
        bytes.push_back(static_cast<char>(kAlphabet.byte[character.value]));
        place += character.size;
    }
    return bytes;
}

}  // namespace accrue
