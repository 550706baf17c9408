#include "accrue/data/tokenizers/unicode.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

std::string utf8(char32_t character) {
    std::string text;
    append_utf8(text, character);
    return text;
}

TEST(UnicodeTest, EveryCharacterComesBack) {
    for (char32_t character = 0; character <= 0x10FFFF; ++character) {
        if (character >= 0xD800 && character <= 0xDFFF) {
            continue;
        }
        const std::string text = utf8(character);
        const Character found = character_at(text, 0);
        ASSERT_EQ(found.value, character);
        ASSERT_EQ(found.size, text.size());
        ASSERT_EQ(character_before(text, text.size()).value, character);
        ASSERT_TRUE(is_utf8(text));
    }
}

TEST(UnicodeTest, BrokenBytesAreNoCharacter) {
    const std::string broken[] = {"\x80",
                                  "\xBF",
                                  "\xC0\x80",
                                  "\xC1\xBF",
                                  "\xE0\x80\x80",
                                  "\xE0\x9F\xBF",
                                  "\xED\xA0\x80",
                                  "\xED\xBF\xBF",
                                  "\xF0\x80\x80\x80",
                                  "\xF0\x8F\xBF\xBF",
                                  "\xF4\x90\x80\x80",
                                  "\xF5\x80\x80\x80",
                                  "\xFF",
                                  "\xC3",
                                  "\xE2\x96",
                                  "\xF0\x9F\x98",
                                  "\xC3(",
                                  "\xE2\x96("};
    for (const std::string& text : broken) {
        EXPECT_EQ(character_at(text, 0).value, Character::kInvalid) << testing::PrintToString(text);
        EXPECT_EQ(character_at(text, 0).size, 1U);
        EXPECT_FALSE(is_utf8(text)) << testing::PrintToString(text);
        EXPECT_FALSE(is_utf8("longer than eight" + text)) << testing::PrintToString(text);
    }
}

TEST(UnicodeTest, ReplacingBrokenBytesKeepsPlaces) {
    EXPECT_EQ(with_invalid_bytes_replaced("a\xFF-\xC3\xA9\xED\xA0\x80"), "a\x1A-\xC3\xA9\x1A\x1A\x1A");
    EXPECT_EQ(with_invalid_bytes_replaced("plain é"), "plain é");
}

TEST(UnicodeTest, NormalFormsAreThoseOfUnicode) {
    EXPECT_EQ(normalized("e\u0301", NormalForm::nfc), "\u00E9");
    EXPECT_EQ(normalized("\u00E9", NormalForm::nfd), "e\u0301");
    EXPECT_EQ(normalized("\uFB01 \u00BD", NormalForm::nfkc), "fi 1\u20442");
    EXPECT_EQ(normalized("\uFB01\u00E9", NormalForm::nfkd), "fie\u0301");
    EXPECT_EQ(normalized("\u212B", NormalForm::nfc), "\u00C5");
}

TEST(UnicodeTest, NormalFormsKeepBrokenBytes) {
    EXPECT_EQ(normalized("e\u0301\xFFz\xED\xA0\x80", NormalForm::nfc), "\u00E9\xFFz\xED\xA0\x80");
}

TEST(UnicodeTest, WhiteSpaceIsThatOfUnicode) {
    for (const char32_t space : {U' ', U'\t', U'\n', U'\v', U'\f', U'\r', U'\u0085', U'\u00A0', U'\u1680', U'\u2003',
                                 U'\u2028', U'\u2029', U'\u202F', U'\u205F', U'\u3000'}) {
        EXPECT_TRUE(is_white_space(space)) << static_cast<uint32_t>(space);
    }
    for (const char32_t other : {U'a', U'\u180E', U'\u200B', U'\uFEFF', Character::kInvalid}) {
        EXPECT_FALSE(is_white_space(other)) << static_cast<uint32_t>(other);
    }
}

TEST(UnicodeTest, WordCharactersAreLettersMarksDigitsAndJoiners) {
    for (const char32_t word : {U'a', U'_', U'7', U'é', U'\u0301', U'東', U'\u200D'}) {
        EXPECT_TRUE(is_word_character(word)) << static_cast<uint32_t>(word);
    }
    for (const char32_t other : {U' ', U'-', U'<', U'½', Character::kInvalid}) {
        EXPECT_FALSE(is_word_character(other)) << static_cast<uint32_t>(other);
    }
}

}  // namespace
}  // namespace accrue
