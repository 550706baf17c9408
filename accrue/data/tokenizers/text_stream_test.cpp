#include "accrue/data/tokenizers/text_stream.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/file.h"
#include "accrue/base/random.h"
#include "accrue/base/test_places.h"
#include "accrue/data/tokenizers/sentencepiece_testing.h"
#include "accrue/data/tokenizers/tokenizer_files.h"
#include "accrue/data/tokenizers/unicode.h"
#include "accrue/data/tokenizers/visible_text.h"

namespace accrue {
namespace {

using Ids = std::vector<int32_t>;

std::filesystem::path golden_folder(const std::string& name) {
    return source_folder() / "tests/golden" / name;
}

// Texts of every kind.
std::vector<std::string> texts_of_cases() {
    std::vector<std::string> texts;
    for (const auto& one : nlohmann::json::parse(read_text(golden_folder("tokenizer-llama2") / "cases.json"))) {
        texts.push_back(one.at("text").get<std::string>());
    }
    return texts;
}

std::string streamed(TextStream stream, const Ids& ids) {
    std::string text;
    for (const int32_t id : ids) {
        text += stream.add(id);
    }
    return text + stream.rest();
}

// Byte pieces only; what is not complete comes as replacement characters.
std::unique_ptr<Tokenizer> sentencepiece_with_bytes() {
    SentencePieceWriter writer;
    writer.piece("<unk>", 0, SentencePieceModel::PieceType::unknown)
        .piece("<s>", 0, SentencePieceModel::PieceType::control)
        .piece("</s>", 0, SentencePieceModel::PieceType::control)
        .bytes()
        .piece("\xE2\x96\x81", -1)
        .piece("a", -2)
        .like_llama();
    return tokenizer_of_sentencepiece(writer.contents(), "bytes");
}

class TextStreamTest : public testing::TestWithParam<const char*> {
protected:
    const std::unique_ptr<Tokenizer> tokenizer_ =
        open_tokenizer(std::string(GetParam()) == "byte" ? std::filesystem::path("byte") : golden_folder(GetParam()));
};

TEST_P(TextStreamTest, PiecesTogetherAreTheWholeText) {
    for (const std::string& text : texts_of_cases()) {
        for (const Special special : {Special::with, Special::without}) {
            const Ids ids = tokenizer_->encode(text, special);
            EXPECT_EQ(streamed(TextStream(*tokenizer_), ids), tokenizer_->decode(ids, Special::without)) << text;
        }
    }
}

TEST_P(TextStreamTest, PiecesOfGoodTextAreWholeCharacters) {
    for (const std::string& text : texts_of_cases()) {
        TextStream stream(*tokenizer_);
        for (const int32_t id : tokenizer_->encode(text, Special::without)) {
            const std::string piece = stream.add(id);
            EXPECT_TRUE(is_utf8(piece)) << text << ": " << piece;
        }
    }
}

// A model may choose any token at any place.
TEST_P(TextStreamTest, AnyIdsGiveTheWholeText) {
    const auto vocabulary = static_cast<uint64_t>(tokenizer_->vocabulary());
    for (uint64_t seed = 0; seed < 300; ++seed) {
        Ids ids;
        for (uint64_t place = 0; place < 20; ++place) {
            // Small ids are bytes and special tokens in most vocabularies.
            const uint64_t limit = seed % 2 == 0 ? std::min<uint64_t>(vocabulary, 300) : vocabulary + 3;
            ids.push_back(static_cast<int32_t>(mix(seed, place) % limit));
        }
        EXPECT_EQ(streamed(TextStream(*tokenizer_), ids), tokenizer_->decode(ids, Special::without)) << seed;
    }
}

TEST_P(TextStreamTest, GoesOnBehindAPrompt) {
    for (const std::string& text : texts_of_cases()) {
        const Ids ids = tokenizer_->encode(text, Special::with);
        for (const size_t cut : {size_t{1}, ids.size() / 2}) {
            const Ids prompt(ids.begin(), ids.begin() + static_cast<int64_t>(std::min(cut, ids.size())));
            const std::string known = tokenizer_->decode(prompt, Special::without);
            const std::string whole = tokenizer_->decode(ids, Special::without);
            if (!whole.starts_with(known) || !is_utf8(known) || known.ends_with("\xEF\xBF\xBD")) {
                continue;  // the prompt ends inside a character
            }
            const Ids more(ids.begin() + static_cast<int64_t>(prompt.size()), ids.end());
            EXPECT_EQ(known + streamed(TextStream(*tokenizer_, prompt), more), whole) << text;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, TextStreamTest,
                         testing::Values("tokenizer-gpt2", "tokenizer-llama3", "tokenizer-qwen2", "tokenizer-llama2",
                                         "tokenizer-sentencepiece", "byte"),
                         [](const auto& info) {
                             const std::string name = info.param;
                             return name == "byte" ? name : name.substr(10);
                         });

TEST(TextStreamsTest, ACharacterWaitsForItsLastByte) {
    const ByteTokenizer bytes;
    TextStream stream(bytes);
    EXPECT_EQ(stream.add(0xE2), "");
    EXPECT_EQ(stream.add(0x82), "");
    EXPECT_EQ(stream.add(0xAC), "\xE2\x82\xAC");
    EXPECT_EQ(stream.add(0xFF), "");
    EXPECT_EQ(stream.add('a'), "\xFF\x61") << "no character begins so";
    EXPECT_EQ(stream.add(0xC3), "");
    EXPECT_EQ(stream.rest(), "\xC3");
}

TEST(TextStreamsTest, BytesOfSentencePieceBecomeCharacters) {
    const auto tokenizer = sentencepiece_with_bytes();
    const auto byte = [](int value) { return 3 + value; };
    TextStream stream(*tokenizer);
    EXPECT_EQ(stream.add(byte(0xF0)), "");
    EXPECT_EQ(stream.add(byte(0x9F)), "");
    EXPECT_EQ(stream.add(byte(0x98)), "");
    EXPECT_EQ(stream.add(byte(0x80)), "\xF0\x9F\x98\x80");
    EXPECT_EQ(stream.add(259), " ");
    EXPECT_EQ(stream.add(260), "a");
    for (uint64_t seed = 0; seed < 300; ++seed) {
        Ids ids;
        for (uint64_t place = 0; place < 12; ++place) {
            ids.push_back(static_cast<int32_t>(mix(seed, place) % 261));
        }
        EXPECT_EQ(streamed(TextStream(*tokenizer), ids), tokenizer->decode(ids, Special::without)) << seed;
    }
}

// A decoder that looks at the end of the whole text: nothing is certain before that end.
TEST(TextStreamsTest, TextThatIsRewrittenComesAtTheEnd) {
    const char* const kFile = R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": null,
        "decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"},
            {"type": "Strip", "content": "b", "start": 0, "stop": 2}]},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})";
    const auto tokenizer = tokenizer_of_json(kFile, "a tokenizer.json");
    EXPECT_TRUE(tokenizer->rewrites_text());
    EXPECT_EQ(streamed(TextStream(*tokenizer), {0, 1, 0, 1, 1}), "aba");
    EXPECT_EQ(streamed(TextStream(*tokenizer, Ids{0}), {1, 0, 1, 1}), "ba");
}

TEST(TextEndTest, TextStopsAtTheFirstEndWhereverItIsCut) {
    const std::string text = "one <|en two<|end|>three<|end|>";
    for (size_t size = 1; size <= text.size(); ++size) {
        TextEnd end({"", "<|end|>", " <|end|>"});
        std::string passed;
        for (size_t place = 0; place < text.size(); place += size) {
            passed += end.add(text.substr(place, size));
        }
        EXPECT_EQ(passed, "one <|en two") << size;
        EXPECT_TRUE(end.reached());
        EXPECT_EQ(end.rest(), "");
    }
}

TEST(TextEndTest, WhatIsNoEndAfterAllComes) {
    TextEnd end({"<|end|>"});
    EXPECT_EQ(end.add("a<|e"), "a");
    EXPECT_EQ(end.add("<|en"), "<|e");
    EXPECT_FALSE(end.reached());
    EXPECT_EQ(end.rest(), "<|en");
}

TEST(VisibleTextTest, NothingDrivesATerminal) {
    EXPECT_EQ(visible_text("\x1b[2J\x07 a\tb\r\n\x7f"), "\\x1b[2J\\x07 a\tb\\x0d\n\\x7f");
    EXPECT_EQ(visible_text("\xC2\x9B 31m"), "\\x9b 31m") << "a C1 control character";
    EXPECT_EQ(visible_text("\xFF\xE2\x82"), "\\xff\\xe2\\x82") << "no UTF-8";
    EXPECT_EQ(visible_text(std::string("\0", 1)), "\\x00");
}

TEST(VisibleTextTest, OtherTextStays) {
    EXPECT_EQ(visible_text("Gr\xC3\xBC\xC3\x9F"
                           "e \xE2\x82\xAC \xF0\x9F\x98\x80\n"),
              "Gr\xC3\xBC\xC3\x9F"
              "e \xE2\x82\xAC \xF0\x9F\x98\x80\n");
}

}  // namespace
}  // namespace accrue
