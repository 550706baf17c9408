#include "accrue/data/tokenizers/added_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

// Tokens as "[id:text]", the rest as it is.
std::string shown(const AddedTokenFinder& finder, std::string_view text) {
    std::string result;
    for (const AddedTokenFinder::Segment& segment : finder.split(text)) {
        result += segment.id < 0 ? cat("(", segment.text, ")") : cat("[", segment.id, ":", segment.text, "]");
    }
    return result;
}

TEST(AddedTokensTest, TheLeftmostAndThenTheLongestIsFound) {
    const AddedTokenFinder finder({{.id = 1, .content = "<a>"},
                                   {.id = 2, .content = "<a><b>"},
                                   {.id = 3, .content = "a><"},
                                   {.id = 4, .content = "<"}});
    EXPECT_EQ(shown(finder, "x<a><b>y"), "(x)[2:<a><b>](y)");
    EXPECT_EQ(shown(finder, "<a><c"), "[1:<a>][4:<](c)");
    EXPECT_EQ(shown(finder, "<ba><"), "[4:<](b)[3:a><]");
    EXPECT_EQ(shown(finder, "none"), "(none)");
    EXPECT_EQ(shown(finder, ""), "");
    EXPECT_EQ(shown(AddedTokenFinder(), "text"), "(text)");
}

TEST(AddedTokensTest, StrippingTakesWhiteSpaceAlong) {
    const AddedTokenFinder finder({{.id = 1, .content = "<l>", .left_strip = true},
                                   {.id = 2, .content = "<r>", .right_strip = true},
                                   {.id = 3, .content = "<b>", .left_strip = true, .right_strip = true}});
    EXPECT_EQ(shown(finder, "a \u3000\n<l> b"), "(a)[1: \u3000\n<l>]( b)");
    EXPECT_EQ(shown(finder, "a <r> \t b"), "(a )[2:<r> \t ](b)");
    EXPECT_EQ(shown(finder, "<r>  <l>"), "[2:<r>  ][1:<l>]");
    EXPECT_EQ(shown(finder, " <b> "), "[3: <b> ]");
}

TEST(AddedTokensTest, ASingleWordHasNoWordBesideIt) {
    const AddedTokenFinder finder({{.id = 1, .content = "word", .single_word = true}});
    EXPECT_EQ(shown(finder, "word, word"), "[1:word](, )[1:word]");
    EXPECT_EQ(shown(finder, "words aword wordé_word"), "(words aword wordé_word)");
    EXPECT_EQ(shown(finder, "-word-\xFFword\xFF"), "(-)[1:word](-\xFF)[1:word](\xFF)");
}

}  // namespace
}  // namespace accrue
