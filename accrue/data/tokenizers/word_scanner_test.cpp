#include "accrue/data/tokenizers/word_scanner.h"

#include <gtest/gtest.h>

#include "accrue/base/random.h"
#include "accrue/data/tokenizers/pattern.h"
#include "accrue/data/tokenizers/unicode.h"

namespace accrue {
namespace {

class WordScannerTest : public testing::TestWithParam<WordRule> {
protected:
    [[nodiscard]] static std::vector<Pattern::Match> scanned(std::string_view text) {
        const WordScanner scanner(GetParam());
        std::vector<Pattern::Match> words;
        for (size_t begin = 0; begin < text.size(); begin = words.back().end) {
            words.push_back({begin, scanner.word_end(text, begin)});
        }
        return words;
    }
    [[nodiscard]] std::vector<Pattern::Match> matched(std::string_view text) const {
        return pattern.find_all(with_invalid_bytes_replaced(text));
    }

    Pattern pattern{pattern_of(GetParam())};
};

TEST_P(WordScannerTest, FindsTheWordsOfThePatternInRandomText) {
    // Short alphabets, so that rules meet each other often; each has its own characters that rules look at.
    const std::vector<std::u32string> alphabets = {U"a B1'\n\t.", U"'sSſtTrReEvVmMlLdDxK", U" \r\n\t\u00A0\u3000a.1",
                                                   U"é東1½Ⅷ٣ '😀\u0301\u200D\n", U"  \n\n''ab12..\u180E\u2028"};
    for (uint64_t number = 0; number < 20'000; ++number) {
        const std::u32string& alphabet = alphabets[number % alphabets.size()];
        std::string text;
        for (uint64_t i = 0; i < 1 + mix(number, 1U) % 24; ++i) {
            append_utf8(text, alphabet[mix(number, 2U, i) % alphabet.size()]);
        }
        ASSERT_EQ(scanned(text), matched(text)) << testing::PrintToString(text);
    }
}

TEST_P(WordScannerTest, FindsTheWordsOfThePatternInEveryPlane) {
    std::string text;
    for (char32_t character = 0; character <= 0x10FFFF; ++character) {
        if (character < 0xD800 || character > 0xDFFF) {
            append_utf8(text, character);
            text += character % 3 == 0 ? "x1" : character % 3 == 1 ? " " : "";
        }
    }
    EXPECT_EQ(scanned(text), matched(text));
}

TEST_P(WordScannerTest, BrokenBytesAreSigns) {
    for (uint64_t number = 0; number < 5'000; ++number) {
        std::string text;
        for (uint64_t i = 0; i < 20; ++i) {
            const uint64_t hash = mix(number, i);
            text.push_back(hash % 2 == 0 ? static_cast<char>(hash >> 8) : "a \n1'"[(hash >> 8) % 5]);
        }
        ASSERT_EQ(scanned(text), matched(text)) << testing::PrintToString(text);
    }
}

TEST_P(WordScannerTest, ItsPatternIsRecognized) {
    EXPECT_EQ(word_rule_of(pattern_of(GetParam())), GetParam());
    EXPECT_EQ(word_rule_of(R"(\p{L}+)"), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(All, WordScannerTest, testing::Values(WordRule::gpt2, WordRule::llama3, WordRule::qwen2));

}  // namespace
}  // namespace accrue
