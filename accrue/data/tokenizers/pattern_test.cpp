#include "accrue/data/tokenizers/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

std::vector<std::string> found(std::string_view pattern, std::string_view text) {
    std::vector<std::string> parts;
    for (const Pattern::Match& match : Pattern(pattern).find_all(text)) {
        parts.emplace_back(text.substr(match.begin, match.end - match.begin));
    }
    return parts;
}

TEST(PatternTest, FindsMatchesFromLeftToRight) {
    EXPECT_THAT(found(R"(\p{L}+|\d)", "ab1é 23"), testing::ElementsAre("ab", "1", "é", "2", "3"));
    EXPECT_THAT(found(R"([^\s\]]+)", "a ]b"), testing::ElementsAre("a", "b"));
    EXPECT_THAT(found(R"([]a]+)", "x]a"), testing::ElementsAre("]a"));
    EXPECT_THAT(found("(?i:ab)c", "ABc aBC"), testing::ElementsAre("ABc"));
    EXPECT_TRUE(found("a", "").empty());
}

TEST(PatternTest, WhiteSpaceIsThatOfUnicode) {
    EXPECT_THAT(found(R"(\s)", "\u180E\u00A0\u200B\u3000\u0085"), testing::ElementsAre("\u00A0", "\u3000", "\u0085"));
    EXPECT_THAT(found(R"(\S+)", "a\u180E\u2003b"), testing::ElementsAre("a\u180E", "b"));
}

TEST(PatternTest, AnEmptyMatchBehindAMatchIsNone) {
    const std::vector<Pattern::Match> expected = {{0, 0}, {2, 3}, {4, 4}};
    EXPECT_EQ(Pattern("x*").find_all("éxa"), expected);
}

TEST(PatternTest, LongTextsDoNotExhaustIt) {
    const std::string spaces(1 << 20, ' ');
    EXPECT_EQ(found(R"(\s*[\r\n]+|\s+(?!\S)|\s+)", spaces + "a").size(), 2U);
    EXPECT_EQ(found(R"((?:a|b)+)", std::string(1 << 20, 'a')).size(), 1U);
}

TEST(PatternTest, WhatIsReadDifferentlyElsewhereIsRefused) {
    const std::pair<const char*, const char*> refused[] = {
        {R"(\w+)", R"(\w)"},          {R"(\bword)", R"(\b)"},
        {R"(\h)", R"(\h)"},           {R"([\S])", R"(\S in a class)"},
        {"^a", "the anchor ^"},       {"a$", "the anchor $"},
        {"[a[b]]", "a class within"}, {"[a&&b]", "&& in a class"},
        {"a{1,3}+", "a + behind }"},
    };
    for (const auto& [pattern, part] : refused) {
        const std::string source = pattern;
        const auto open = [&] { Pattern{source}; };
        EXPECT_THAT(open, testing::ThrowsMessage<Error>(
                              testing::AllOf(testing::HasSubstr(part), testing::HasSubstr("not supported"))));
    }
    EXPECT_THAT([] { Pattern("(a"); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("the pattern (a cannot be read")));
}

}  // namespace
}  // namespace accrue
