#include "accrue/data/document_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace accrue {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int32_t kBegin = 300;
constexpr int32_t kMark = 301;
constexpr int32_t kEnd = ByteTokenizer::kEnd;

// Bytes with a begin and an end around a text; "#" is a special token.
class WrappingTokenizer final : public Tokenizer {
public:
    [[nodiscard]] std::vector<int32_t> encode(std::string_view text, Special special) const override {
        std::vector<int32_t> ids = bytes_.encode(text);
        std::replace(ids.begin(), ids.end(), int32_t{'#'}, kMark);
        if (special == Special::with) {
            ids.insert(ids.begin(), kBegin);
            ids.push_back(kEnd);
        }
        return ids;
    }
    [[nodiscard]] std::vector<int32_t> encode_plain(std::string_view text) const override {
        return bytes_.encode(text);
    }
    [[nodiscard]] std::string decode(std::span<const int32_t> ids, Special) const override {
        return bytes_.decode(ids);
    }
    [[nodiscard]] int64_t vocabulary() const override { return 302; }
    [[nodiscard]] std::optional<int32_t> end_of_document() const override { return kEnd; }
    [[nodiscard]] std::string token_text(int32_t) const override { return ""; }
    [[nodiscard]] std::string fingerprint() const override { return "wrapping"; }

private:
    ByteTokenizer bytes_;
};

TokenizedDocument tokenized(const Document& document, PiecePlace place = PiecePlace::first) {
    const WrappingTokenizer tokenizer;
    TokenizedDocument result{.ids = {1, 2, 3}, .counted = {1}};
    tokenize_document(tokenizer, document, place, result);
    return result;
}

TEST(DocumentTokenizerTest, ADocumentGetsABeginAndNoEnd) {
    EXPECT_THAT(tokenized({.parts = {{.text = "ab", .ids = {}}}}).ids, ElementsAre(kBegin, 'a', 'b'));
    EXPECT_THAT(tokenized({.parts = {{.text = "", .ids = {1, 2}}}}).ids, ElementsAre(1, 2))
        << "ids are taken as they are";
}

TEST(DocumentTokenizerTest, ALaterPieceGetsNoBegin) {
    EXPECT_THAT(tokenized({.parts = {{.text = "ab", .ids = {}}}}, PiecePlace::later).ids, ElementsAre('a', 'b'));
}

TEST(DocumentTokenizerTest, SpecialTokensAreRecognisedInMarksOnly) {
    const Document chat{.parts = {{.text = "#", .ids = {}, .counted = false, .has_markup = true},
                                  {.text = "a#", .ids = {}},
                                  {.text = "#", .ids = {}, .counted = false, .has_markup = true}}};
    const TokenizedDocument result = tokenized(chat);
    EXPECT_THAT(result.ids, ElementsAre(kMark, 'a', '#', kMark)) << "a chat format brings its own begin";
    EXPECT_THAT(result.counted, ElementsAre(0, 1, 1, 0));
}

TEST(DocumentTokenizerTest, APartDecidesWhatCounts) {
    const Document document{.parts = {{.text = "a", .ids = {}, .counted = false}, {.text = "b", .ids = {}}}};
    EXPECT_THAT(tokenized(document).ids, ElementsAre(kBegin, 'a', 'b'));
    EXPECT_THAT(tokenized(document).counted, ElementsAre(0, 0, 1));
}

TEST(DocumentTokenizerTest, AnEndAtTheEndIsLeftOutBecauseSamplesBringIt) {
    EXPECT_THAT(tokenized({.parts = {{.text = "", .ids = {1, kEnd}}}}).ids, ElementsAre(1));
    EXPECT_THAT(tokenized({.parts = {{.text = "", .ids = {kEnd}}}}).ids, IsEmpty());
    EXPECT_THAT(tokenized({.parts = {{.text = "", .ids = {1, kEnd}}}, .unfinished = true}).ids, ElementsAre(1, kEnd))
        << "more follows, so this is no end of the document";
}

TEST(DocumentTokenizerTest, ATokenizerThatPutsNothingAroundATextHasNoBegin) {
    const ByteTokenizer bytes;
    TokenizedDocument result;
    DocumentTokenizer{bytes}({.parts = {{.text = "ab", .ids = {}}}}, PiecePlace::first, result);
    EXPECT_THAT(result.ids, ElementsAre('a', 'b'));
}

}  // namespace
}  // namespace accrue
