#include "accrue/data/tokenizers/sentencepiece_bpe.h"

#include <array>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/random.h"
#include "accrue/base/test_places.h"
#include "accrue/data/documents/stories.h"
#include "accrue/data/tokenizers/sentencepiece_testing.h"
#include "accrue/data/tokenizers/tokenizer_files.h"
#include "accrue/data/tokenizers/unicode.h"

namespace accrue {
namespace {

using Ids = std::vector<int32_t>;
using PieceType = SentencePieceModel::PieceType;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string golden() {
    return read_text(source_folder() / "tests/golden/tokenizer-sentencepiece/tokenizer.model");
}

std::optional<SentencePieceBpe> pairs_of(const std::string& contents) {
    return SentencePieceBpe::of(read_sentencepiece_model(contents, "a model"));
}

class Library {
public:
    explicit Library(const std::string& contents) {
        const auto status = library_.LoadFromSerializedProto(contents);
        EXPECT_TRUE(status.ok()) << status.ToString();
    }
    [[nodiscard]] Ids encode(const std::string& text) const {
        std::vector<int> ids;
        EXPECT_TRUE(library_.Encode(text, &ids).ok());
        return {ids.begin(), ids.end()};
    }

private:
    sentencepiece::SentencePieceProcessor library_;
};

// Numbers from a seed, one after another.
class Dice {
public:
    explicit Dice(uint64_t seed) : seed_(seed) {}
    uint64_t below(uint64_t end) { return mix(seed_, count_++) % end; }

private:
    uint64_t seed_;
    uint64_t count_ = 0;
};

// One of the parts after another.
std::string random_text(Dice& dice, const std::vector<std::string>& parts, size_t most) {
    std::string text;
    for (uint64_t left = dice.below(most + 1); left > 0; --left) {
        text += parts[dice.below(parts.size())];
    }
    return text;
}

std::string random_characters(Dice& dice, size_t count) {
    constexpr std::array<char32_t, 6> kEnds = {0x80, 0x800, 0x3000, 0x10000, 0x20000, 0x110000};
    std::string text;
    for (size_t i = 0; i < count; ++i) {
        const auto character = static_cast<char32_t>(dice.below(kEnds[dice.below(kEnds.size())]));
        if (character < 0xD800 || character > 0xDFFF) {
            append_utf8(text, character);
        }
    }
    return text;
}

std::string random_bytes(Dice& dice, size_t count) {
    std::string bytes;
    for (size_t i = 0; i < count; ++i) {
        bytes.push_back(static_cast<char>(dice.below(256)));
    }
    return bytes;
}

std::vector<std::string> hard_texts() {
    std::vector<std::string> texts = {"",
                                      " ",
                                      "\n",
                                      "a",
                                      "▁",
                                      " ▁ ▁▁",
                                      "<s>a</s><unk><0x0A>",
                                      std::string(3000, ' '),
                                      std::string(3000, 'a'),
                                      std::string(500, '\0') + "\t\r\n",
                                      "\xED\xA0\x80 \xC0\x80 \xF4\x90\x80\x80 \xE2\x96",
                                      "�",
                                      stories(3, 30'000)};
    Dice dice(1);
    const std::vector<std::string> spaces = {" ", "  ", "\t", "\n", "\r\n", "\u00A0", "\u3000", "a", "the", "."};
    for (int i = 0; i < 30; ++i) {
        texts.push_back(random_text(dice, spaces, 60));
        texts.push_back(random_characters(dice, 200));
        texts.push_back(random_bytes(dice, 200));
    }
    return texts;
}

TEST(SentencePieceBpeTest, TheLibraryAgreesOnHardText) {
    for (const bool prefix : {true, false}) {
        const std::string contents = golden() + SentencePieceWriter().normalizer(3, prefix ? 1 : 0).contents();
        const std::optional<SentencePieceBpe> pairs = pairs_of(contents);
        ASSERT_TRUE(pairs.has_value());
        const Library library(contents);
        for (const std::string& text : hard_texts()) {
            EXPECT_EQ(pairs->encode(text, TextStart::begins), library.encode(text)) << text.substr(0, 80);
        }
    }
}

TEST(SentencePieceBpeTest, TheLibraryAgreesOnSymbolsThatAUserDefined) {
    SentencePieceWriter symbols;
    for (const char* symbol : {"▁▁", "▁▁▁▁", "<|im_start|>", "once", "\n\n", "é", "onc", "ce upon", "\t", "ing▁"}) {
        symbols.piece(symbol, 0, PieceType::user_defined);
    }
    const std::string contents = golden() + symbols.contents();
    const std::optional<SentencePieceBpe> pairs = pairs_of(contents);
    ASSERT_TRUE(pairs.has_value());
    const Library library(contents);
    std::vector<std::string> texts = hard_texts();
    Dice dice(2);
    for (int i = 0; i < 100; ++i) {
        texts.push_back(random_text(dice,
                                    {"once", "on", " ", "ce", "\n", "é", "e", "<|im_start|>", "▁", "ing", "ce upon",
                                     "\t", "\xE9", "n", "<|im", "東"},
                                    40));
    }
    for (const std::string& text : texts) {
        EXPECT_EQ(pairs->encode(text, TextStart::begins), library.encode(text)) << text.substr(0, 80);
    }
}

// Few letters and few scores, so that many pieces overlap and many scores are the same.
TEST(SentencePieceBpeTest, TheLibraryAgreesOnAnyVocabulary) {
    const std::vector<std::string> letters = {"a", "b", "c", "é", "▁", "😀"};
    const std::vector<std::string> parts = {"a", "b", "c", "é", " ", "😀", "ab", "ba", "x", "\xFF", "ø"};
    for (uint64_t seed = 0; seed < 200; ++seed) {
        Dice dice(100 + seed);
        SentencePieceWriter writer;
        writer.like_llama().piece("<unk>", 0, PieceType::unknown).piece("<s>", 0, PieceType::control);
        if (dice.below(2) == 0) {
            writer.bytes();
        }
        std::vector<std::string> taken = letters;
        for (const std::string& letter : letters) {
            writer.piece(letter, -static_cast<float>(dice.below(9)));
        }
        for (int i = 0; i < 60; ++i) {
            const std::string piece = random_text(dice, letters, 5);
            if (!piece.empty() && std::find(taken.begin(), taken.end(), piece) == taken.end()) {
                taken.push_back(piece);
                writer.piece(piece, 4 - static_cast<float>(dice.below(8)),
                             dice.below(20) == 0 ? PieceType::user_defined : PieceType::normal);
            }
        }
        const std::optional<SentencePieceBpe> pairs = pairs_of(writer.contents());
        ASSERT_TRUE(pairs.has_value());
        const Library library(writer.contents());
        for (int i = 0; i < 30; ++i) {
            const std::string text = random_text(dice, parts, i == 0 ? 400 : 40);
            ASSERT_EQ(pairs->encode(text, TextStart::begins), library.encode(text)) << seed << ": " << text;
        }
    }
}

TEST(SentencePieceBpeTest, OfEqualScoresTheLeftmostIsMergedFirst) {
    SentencePieceWriter writer;
    writer.like_llama().normalizer(3, 0).piece("<unk>", 0, PieceType::unknown);
    writer.piece("a", -9).piece("b", -9).piece("ab", -1).piece("ba", -1);
    EXPECT_EQ(pairs_of(writer.contents())->encode("aba", TextStart::begins), (Ids{3, 1}));
    EXPECT_EQ(pairs_of(writer.contents())->encode("bab", TextStart::begins), (Ids{4, 2}));
    EXPECT_EQ(Library(writer.contents()).encode("bab"), (Ids{4, 2}));
}

TEST(SentencePieceBpeTest, ATextThatGoesOnGetsNoMark) {
    const std::optional<SentencePieceBpe> pairs = pairs_of(golden());
    Ids parts = pairs->encode("Once upon", TextStart::begins);
    const Ids later = pairs->encode(" a time", TextStart::continues);
    parts.insert(parts.end(), later.begin(), later.end());
    EXPECT_EQ(parts, pairs->encode("Once upon a time", TextStart::begins));
}

// The library adds a mark or removes spaces at the ends of a text, which must not happen inside one.
TEST(SentencePieceBpeTest, ATextGoesOnTheSameWayInTheLibrary) {
    const SentencePieceWriter removes_spaces = SentencePieceWriter().normalizer(4, 1);
    const SentencePieceWriter has_unused = SentencePieceWriter().piece("upon a", 0, PieceType::unused);
    for (const SentencePieceWriter& change : {removes_spaces, has_unused}) {
        const std::string contents = golden() + change.contents();
        ASSERT_FALSE(pairs_of(contents).has_value());
        const std::unique_ptr<Tokenizer> tokenizer = tokenizer_of_sentencepiece(contents, "a model");
        for (const size_t cut : {4, 9, 11, 7}) {
            const std::string text = "Once upon a time";
            Ids parts = tokenizer->encode_plain(text.substr(0, cut));
            const Ids later = tokenizer->encode_later_part(text.substr(cut));
            parts.insert(parts.end(), later.begin(), later.end());
            EXPECT_EQ(tokenizer->decode(parts, Special::without), text) << cut;
            if (cut != 7) {
                EXPECT_EQ(parts, tokenizer->encode_plain(text)) << cut;
            }
        }
    }
}

// What only the library knows: each of these would be encoded otherwise by pairs of ids.
TEST(SentencePieceBpeTest, OtherModelsAreLeftToTheLibrary) {
    const auto needs_library = [](const SentencePieceWriter& more) {
        return !pairs_of(golden() + more.contents()).has_value();
    };
    const auto writer = [] { return SentencePieceWriter(); };
    EXPECT_FALSE(needs_library(writer()));
    EXPECT_TRUE(needs_library(writer().trainer(3, 1))) << "unigram";
    EXPECT_TRUE(needs_library(writer().normalizer(4, 1))) << "removes spaces";
    EXPECT_TRUE(needs_library(writer().normalizer(5, 0))) << "writes spaces as they are";
    EXPECT_TRUE(needs_library(writer().trainer(24, 1))) << "spaces end words";
    EXPECT_TRUE(needs_library(writer().character_table("a table"))) << "replaces characters";
    EXPECT_TRUE(needs_library(writer().piece("abcde", 0, PieceType::unused))) << "pieces that are taken apart again";
    EXPECT_TRUE(needs_library(writer().piece("a東", 0))) << "a character that is no piece";
    EXPECT_TRUE(needs_library(writer().piece("東", 0, PieceType::control))) << "a text may spell this";
    EXPECT_TRUE(needs_library(writer().piece("<s>", 0, PieceType::user_defined))) << "one text, two pieces";
    EXPECT_TRUE(needs_library(writer().piece("\xFF\xFE", 0, PieceType::user_defined))) << "no UTF-8";
    SentencePieceWriter chain;
    for (size_t size = 2; size < 100; ++size) {
        chain.piece(std::string(size, '\n'), 0, PieceType::user_defined);
    }
    EXPECT_TRUE(needs_library(chain)) << "more beginnings than the library looks at";
}

// Field 1: a piece, of which field 1 is its text and field 2 its score.
TEST(SentencePieceBpeTest, AScoreThatIsNoNumberIsNamed) {
    const std::string piece = std::string("\x0A\x01z\x15", 4) + std::string("\x00\x00\xC0\x7F", 4);
    const std::string contents = golden() + "\x0A" + static_cast<char>(piece.size()) + piece;
    EXPECT_THAT([&] { (void)read_sentencepiece_model(contents, "odd.model"); },
                ThrowsMessage<Error>(HasSubstr("odd.model: the score of piece \"z\" is no number")));
}

// To a part of the library a piece that begins with a zero byte has no length: it throws instead of saying so in its status.
TEST(SentencePieceBpeTest, WhatTheLibraryThrowsIsAnErrorThatNamesTheFile) {
    const std::string contents = read_text(source_folder() / "tests/fuzz/seeds/sentencepiece/empty_piece");
    EXPECT_THAT([&] { (void)tokenizer_of_sentencepiece(contents, "odd.model"); },
                ThrowsMessage<Error>(HasSubstr("odd.model is neither")));
}

TEST(SentencePieceBpeTest, ACutFileIsNamed) {
    EXPECT_THAT([] { (void)read_sentencepiece_model(golden().substr(0, 5000), "cut.model"); },
                ThrowsMessage<Error>(HasSubstr("cut.model is no whole SentencePiece model")));
}

}  // namespace
}  // namespace accrue
