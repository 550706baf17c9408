#include "accrue/data/cache/document_tokenizer.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/test_places.h"
#include "accrue/data/documents/stories.h"

namespace accrue {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int32_t kBegin = 300;
constexpr int32_t kMark = 301;

// Bytes with a begin and an end around a text; "#" is a special token.
class WrappingTokenizer final : public Tokenizer {
public:
    [[nodiscard]] std::vector<int32_t> encode(std::string_view text, Special special) const override {
        std::vector<int32_t> ids = bytes_.encode(text);
        std::replace(ids.begin(), ids.end(), int32_t{'#'}, kMark);
        if (special == Special::with) {
            ids.insert(ids.begin(), kBegin);
            ids.push_back(ByteTokenizer::kEnd);
        }
        return ids;
    }
    [[nodiscard]] std::vector<int32_t> encode_plain(std::string_view text) const override {
        return bytes_.encode(text);
    }
    // Recognisable by a plus.
    [[nodiscard]] std::vector<int32_t> encode_later_part(std::string_view text) const override {
        return bytes_.encode(cat("+", text));
    }
    [[nodiscard]] std::string decode(std::span<const int32_t> ids, Special) const override {
        return bytes_.decode(ids);
    }
    [[nodiscard]] int64_t vocabulary() const override { return 302; }
    [[nodiscard]] std::optional<int32_t> end_of_document() const override { return ByteTokenizer::kEnd; }
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

TEST(DocumentTokenizerTest, ALaterPieceGoesOnAndGetsNoBegin) {
    EXPECT_THAT(tokenized({.parts = {{.text = "ab", .ids = {}}}}, PiecePlace::later).ids, ElementsAre('+', 'a', 'b'));
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
    EXPECT_THAT(tokenized({.parts = {{.text = "", .ids = {1, ByteTokenizer::kEnd}}}}).ids, ElementsAre(1));
    EXPECT_THAT(tokenized({.parts = {{.text = "", .ids = {ByteTokenizer::kEnd}}}}).ids, IsEmpty());
    EXPECT_THAT(tokenized({.parts = {{.text = "", .ids = {1, ByteTokenizer::kEnd}}}, .unfinished = true}).ids,
                ElementsAre(1, ByteTokenizer::kEnd))
        << "more follows, so this is no end of the document";
}

TEST(DocumentTokenizerTest, ATokenizerThatPutsNothingAroundATextHasNoBegin) {
    const ByteTokenizer bytes;
    TokenizedDocument result;
    DocumentTokenizer{bytes}({.parts = {{.text = "ab", .ids = {}}}}, PiecePlace::first, result);
    EXPECT_THAT(result.ids, ElementsAre('a', 'b'));
}

// A file of several pieces gives the ids that its text gives as a whole: no mark for a space at the start of a piece.
TEST(DocumentTokenizerTest, PiecesGiveTheIdsOfTheWhole) {
    const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / cat("pieces_", ::getpid());
    std::filesystem::create_directories(folder);
    const std::string text = "naïve 東京 " + stories(5, 3'300'000);
    write_text(folder / "stories.txt", text);
    for (const char* name : {"tokenizer-gpt2", "tokenizer-llama3", "tokenizer-qwen2", "tokenizer-llama2",
                             "tokenizer-sentencepiece/tokenizer.json", "tokenizer-sentencepiece/tokenizer.model"}) {
        const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(source_folder() / "tests/golden" / name);
        const DocumentTokenizer tokenize(*tokenizer);
        const std::unique_ptr<DocumentReader> reader = open_documents(folder / "stories.txt", {});
        Document document;
        TokenizedDocument piece;
        std::vector<int32_t> ids;
        int pieces = 0;
        for (PiecePlace place = PiecePlace::first; reader->next(document); place = PiecePlace::later) {
            tokenize(document, place, piece);
            ids.insert(ids.end(), piece.ids.begin(), piece.ids.end());
            ++pieces;
        }
        EXPECT_GT(pieces, 3);
        TokenizedDocument whole;
        tokenize({.parts = {{.text = text, .ids = {}}}}, PiecePlace::first, whole);
        EXPECT_TRUE(ids == whole.ids) << name << ": " << ids.size() << " ids, whole " << whole.ids.size();
    }
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace accrue
