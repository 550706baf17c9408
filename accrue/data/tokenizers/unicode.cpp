#include "accrue/data/tokenizers/unicode.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

uint8_t byte_at(std::string_view text, size_t place) {
    return static_cast<uint8_t>(text[place]);
}

// How many bytes a character has that begins with this one; 0 where none does.
size_t size_by_lead(uint8_t lead) {
    if (lead < 0x80) {
        return 1;
    }
    if (lead < 0xC2 || lead > 0xF4) {
        return 0;
    }
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

size_t ascii_prefix(std::string_view text, size_t place) {
    while (place + 8 <= text.size()) {
        uint64_t eight = 0;
        std::memcpy(&eight, text.data() + place, sizeof eight);
        if ((eight & 0x8080808080808080ULL) != 0) {
            break;
        }
        place += 8;
    }
    return place;
}

const icu::Normalizer2& normalizer_of(NormalForm form) {
    UErrorCode status = U_ZERO_ERROR;
    const icu::Normalizer2* found = nullptr;
    switch (form) {
        case NormalForm::nfc:
            found = icu::Normalizer2::getNFCInstance(status);
            break;
        case NormalForm::nfd:
            found = icu::Normalizer2::getNFDInstance(status);
            break;
        case NormalForm::nfkc:
            found = icu::Normalizer2::getNFKCInstance(status);
            break;
        case NormalForm::nfkd:
            found = icu::Normalizer2::getNFKDInstance(status);
            break;
    }
    if (U_FAILURE(status) != 0 || found == nullptr) {
        throw Error(cat("ICU has no data for Unicode normal forms: ", u_errorName(status)));
    }
    return *found;
}

// Below these the forms change nothing: U+0300 for NFC, which has the lead byte CC, and ASCII for the others.
bool surely_normal(std::string_view text, NormalForm form) {
    const uint8_t first_doubtful = form == NormalForm::nfc ? 0xCC : 0x80;
    return std::none_of(text.begin(), text.end(),
                        [&](char letter) { return static_cast<uint8_t>(letter) >= first_doubtful; });
}

}  // namespace

Character character_at(std::string_view text, size_t place) {
    const uint8_t lead = byte_at(text, place);
    if (lead < 0x80) {
        return {lead, 1};
    }
    const size_t size = size_by_lead(lead);
    if (size == 0 || place + size > text.size()) {
        return {};
    }
    char32_t value = lead & (0x7FU >> size);
    for (size_t i = 1; i < size; ++i) {
        const uint8_t next = byte_at(text, place + i);
        if ((next & 0xC0U) != 0x80) {
            return {};
        }
        value = value << 6 | (next & 0x3FU);
    }
    const bool overlong = (size == 3 && value < 0x800) || (size == 4 && value < 0x10000);
    const bool surrogate = value >= 0xD800 && value < 0xE000;
    if (overlong || surrogate || value > 0x10FFFF) {
        return {};
    }
    return {value, size};
}

Character character_before(std::string_view text, size_t place) {
    for (size_t size = 1; size <= 4 && size <= place; ++size) {
        const Character character = character_at(text.substr(0, place), place - size);
        if (character.value != Character::kInvalid && character.size == size) {
            return character;
        }
    }
    return {};
}

bool is_utf8(std::string_view text) {
    for (size_t place = ascii_prefix(text, 0); place < text.size();) {
        const Character character = character_at(text, place);
        if (character.value == Character::kInvalid) {
            return false;
        }
        place = ascii_prefix(text, place + character.size);
    }
    return true;
}

std::string with_invalid_bytes_replaced(std::string_view text) {
    std::string result(text);
    for (size_t place = 0; place < text.size();) {
        const Character character = character_at(text, place);
        if (character.value == Character::kInvalid) {
            result[place] = '\x1A';
        }
        place += character.size;
    }
    return result;
}

void append_utf8(std::string& text, char32_t character) {
    const auto append = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
    if (character < 0x80) {
        append(character);
    } else if (character < 0x800) {
        append(0xC0 | character >> 6);
        append(0x80 | (character & 0x3F));
    } else if (character < 0x10000) {
        append(0xE0 | character >> 12);
        append(0x80 | (character >> 6 & 0x3F));
        append(0x80 | (character & 0x3F));
    } else {
        append(0xF0 | character >> 18);
        append(0x80 | (character >> 12 & 0x3F));
        append(0x80 | (character >> 6 & 0x3F));
        append(0x80 | (character & 0x3F));
    }
}

bool is_white_space(char32_t character) {
    return (character >= 0x09 && character <= 0x0D) || character == 0x20 || character == 0x85 || character == 0xA0 ||
           character == 0x1680 || (character >= 0x2000 && character <= 0x200A) || character == 0x2028 ||
           character == 0x2029 || character == 0x202F || character == 0x205F || character == 0x3000;
}

bool is_word_character(char32_t character) {
    if (character == Character::kInvalid) {
        return false;
    }
    const auto code = static_cast<UChar32>(character);
    const uint32_t kind = U_GET_GC_MASK(code);
    return u_hasBinaryProperty(code, UCHAR_ALPHABETIC) != 0 || u_hasBinaryProperty(code, UCHAR_JOIN_CONTROL) != 0 ||
           (kind & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

std::string normalized(std::string_view text, NormalForm form) {
    if (surely_normal(text, form)) {
        return std::string(text);
    }
    if (text.size() > INT32_MAX) {
        throw Error(cat("a text of ", text.size(), " bytes is too long to normalize: cut it below 2 GiB"));
    }
    std::string result;
    result.reserve(text.size());
    icu::StringByteSink<std::string> sink(&result);
    UErrorCode status = U_ZERO_ERROR;
    const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
    normalizer_of(form).normalizeUTF8(0, piece, sink, nullptr, status);
    if (U_FAILURE(status) != 0) {
        throw Error(cat("ICU could not normalize a text of ", text.size(), " bytes: ", u_errorName(status)));
    }
    return result;
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && is_white_space(character_at(text, 0).value)) {
        text.remove_prefix(character_at(text, 0).size);
    }
    while (!text.empty() && is_white_space(character_before(text, text.size()).value)) {
        text.remove_suffix(character_before(text, text.size()).size);
    }
    return text;
}

}  // namespace accrue
