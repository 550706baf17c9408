#include "accrue/train/sample_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace accrue {
namespace {

using testing::ElementsAre;

TEST(SampleTextTest, LargerModelsShowLessText) {
    EXPECT_EQ(shown_tokens(1'000'000, 16, 256), 300) << "as many as ever";
    const int64_t medium = shown_tokens(124'000'000, 16, 1024);
    EXPECT_LT(medium, 60);
    EXPECT_GT(medium, 30);
    EXPECT_LT(shown_tokens(124'000'000, 800, 1024), medium) << "a long prompt goes through the layers each time";
    EXPECT_EQ(shown_tokens(124'000'000, 800, 16), shown_tokens(124'000'000, 16, 16)) << "but no more than fits";
    EXPECT_EQ(shown_tokens(int64_t{70'000'000'000}, 16, 1024), 16) << "never nothing";
}

class TextPiecesTest : public testing::Test {
protected:
    std::vector<std::string> pieces_;
    TextPieces text_{[this](std::string_view piece) { pieces_.emplace_back(piece); }};
};

TEST_F(TextPiecesTest, EachPieceIsHandedOnOnce) {
    text_.show("Once");
    text_.show("Once");
    text_.show("Once upon");
    text_.end("Once upon a");
    EXPECT_THAT(pieces_, ElementsAre("Once", " upon", " a"));
}

TEST_F(TextPiecesTest, ACharacterWaitsForItsLastByte) {
    text_.show("a\xe2");
    text_.show("a\xe2\x82");
    text_.show("a\xe2\x82\xac");
    text_.show("a\xe2\x82\xac\xef\xbf\xbd");  // a decoder's way to say that bytes are missing
    text_.show("a\xe2\x82\xac\xc3\xa9");
    text_.end("a\xe2\x82\xac\xc3\xa9\xc3");
    EXPECT_THAT(pieces_, ElementsAre("a", "\xe2\x82\xac", "\xc3\xa9", "\xc3")) << "at the end nothing is held back";
}

TEST_F(TextPiecesTest, TextThatIsNotUtf8IsNotHeldBackForEver) {
    text_.show("\x80\x80\x80\x80");
    text_.end("\x80\x80\x80\x80x");
    EXPECT_THAT(pieces_, ElementsAre("\x80\x80\x80\x80", "x"));
}

TEST_F(TextPiecesTest, ADecoderThatChangesItsMindShowsAllOfItAtTheEnd) {
    text_.show("ab");
    text_.show("xb c");
    text_.end("xb cd");
    EXPECT_THAT(pieces_, ElementsAre("ab", "\n", "xb cd"));
}

}  // namespace
}  // namespace accrue
