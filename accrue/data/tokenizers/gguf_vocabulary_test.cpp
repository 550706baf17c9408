#include "accrue/data/tokenizers/gguf_vocabulary.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/test_places.h"
#include "accrue/data/documents/stories.h"
#include "accrue/data/tokenizers/gguf_sentencepiece.h"
#include "accrue/data/tokenizers/sentencepiece_testing.h"
#include "accrue/data/tokenizers/tokenizer.h"
#include "accrue/data/tokenizers/unicode.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;
using Json = nlohmann::json;
using PieceType = SentencePieceModel::PieceType;
using testing::HasSubstr;

fs::path file_of_golden(const std::string& name) {
    return source_folder() / "tests/golden" / name;
}

class GgufVocabularyTest : public testing::Test {
protected:
    void SetUp() override { fs::create_directories(folder); }
    void TearDown() override { fs::remove_all(folder); }

    // Writes the golden json with one part replaced, and takes its vocabulary.
    GgufVocabulary vocabulary_with(const std::string& name, const char* part, const Json& value) const {
        Json json = Json::parse(read_text(file_of_golden(name) / "tokenizer.json"));
        json[Json::json_pointer(part)] = value;
        write_text(folder / "tokenizer.json", json.dump());
        return vocabulary_of_json(folder / "tokenizer.json");
    }
    GgufVocabulary vocabulary_with(const SentencePieceWriter& more) const {
        write_text(folder / "tokenizer.model",
                   read_text(file_of_golden("tokenizer-sentencepiece/tokenizer.model")) + more.contents());
        return vocabulary_of_sentencepiece(folder / "tokenizer.model");
    }

    fs::path folder = fs::path(testing::TempDir()) / cat("gguf_vocabulary_", ::getpid());
};

// What llama.cpp's rules for "llama" make of a text without user-defined tokens: spaces become marks, and of all
// neighbours that joined are a token the best score is joined first, of equal ones the leftmost.
Ids encoded_by_scores(const GgufTokenizer& tokenizer, const std::string& text) {
    std::map<std::string, int32_t> ids;
    for (size_t id = 0; id < tokenizer.tokens.size(); ++id) {
        ids.emplace(tokenizer.tokens[id], static_cast<int32_t>(id));
    }
    std::vector<std::string> symbols;
    if (tokenizer.add_space_prefix.value()) {
        symbols.emplace_back("▁");
    }
    for (size_t place = 0; place < text.size(); place += character_at(text, place).size) {
        symbols.push_back(text[place] == ' ' ? "▁" : text.substr(place, character_at(text, place).size));
    }
    while (true) {
        size_t best = symbols.size();
        float best_score = 0;
        for (size_t i = 0; i + 1 < symbols.size(); ++i) {
            const auto found = ids.find(symbols[i] + symbols[i + 1]);
            if (found == ids.end()) {
                continue;
            }
            const float score = tokenizer.scores[static_cast<size_t>(found->second)];
            if (best == symbols.size() || score > best_score) {
                best = i;
                best_score = score;
            }
        }
        if (best == symbols.size()) {
            break;
        }
        symbols[best] += symbols[best + 1];
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    Ids result;
    for (const std::string& symbol : symbols) {
        if (ids.count(symbol) != 0) {
            result.push_back(ids[symbol]);
            continue;
        }
        constexpr std::string_view kDigits = "0123456789ABCDEF";
        for (const char letter : symbol) {
            const auto byte = static_cast<unsigned char>(letter);
            result.push_back(ids.at(cat("<0x", kDigits[byte / 16], kDigits[byte % 16], ">")));
        }
    }
    return result;
}

TEST_F(GgufVocabularyTest, ScoresGiveTheIdsOfTheTokenizer) {
    for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
        SCOPED_TRACE(name);
        const fs::path file = file_of_golden("tokenizer-sentencepiece") / name;
        const GgufVocabulary vocabulary =
            name == std::string("tokenizer.json") ? vocabulary_of_json(file) : vocabulary_of_sentencepiece(file);
        ASSERT_TRUE(vocabulary.tokenizer.has_value()) << vocabulary.reason;
        const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(file);
        for (const std::string& text : {stories(2, 2000), std::string("  two  spaces\tnaïve 東京\n\n😀")}) {
            EXPECT_EQ(encoded_by_scores(*vocabulary.tokenizer, text), tokenizer->encode(text, Special::without));
        }
    }
}

TEST_F(GgufVocabularyTest, BothFilesOfASentencePieceModelSayTheSame) {
    const auto json = vocabulary_of_json(file_of_golden("tokenizer-sentencepiece/tokenizer.json")).tokenizer;
    const auto model = vocabulary_of_sentencepiece(file_of_golden("tokenizer-sentencepiece/tokenizer.model")).tokenizer;
    ASSERT_TRUE(json && model);
    EXPECT_EQ(json->model, "llama");
    EXPECT_EQ(json->pre, "default");
    EXPECT_EQ(json->tokens, model->tokens);
    EXPECT_EQ(json->types, model->types);
    EXPECT_EQ(json->types[0], GgufTokenizer::unknown_token);
    EXPECT_EQ(json->types[1], GgufTokenizer::control);
    EXPECT_EQ(json->tokens[3], "<0x00>");
    EXPECT_EQ(json->types[3], GgufTokenizer::byte);
    EXPECT_EQ(json->types[300], GgufTokenizer::normal);
    for (const GgufTokenizer& one : {*json, *model}) {
        EXPECT_EQ(one.scores.size(), one.tokens.size());
        EXPECT_TRUE(one.merges.empty());
        EXPECT_EQ(one.begin, 1U);
        EXPECT_EQ(one.end, 2U);
        EXPECT_EQ(one.unknown, 0U);
        EXPECT_EQ(one.add_begin, true);
        EXPECT_EQ(one.add_end, false);
        EXPECT_EQ(one.add_space_prefix, true);
    }
}

// llama.cpp looks for them before it marks spaces.
TEST_F(GgufVocabularyTest, UserDefinedTokensAreSpelledWithSpaces) {
    const GgufVocabulary vocabulary =
        vocabulary_with(SentencePieceWriter().piece("▁▁x", 0, PieceType::user_defined).normalizer(3, 0));
    ASSERT_TRUE(vocabulary.tokenizer.has_value()) << vocabulary.reason;
    EXPECT_EQ(vocabulary.tokenizer->tokens.back(), "  x");
    EXPECT_EQ(vocabulary.tokenizer->types.back(), GgufTokenizer::user_defined);
    EXPECT_EQ(vocabulary.tokenizer->add_space_prefix, false);
}

TEST_F(GgufVocabularyTest, ModelsThatLlamaCppReadsOtherwiseAreNamed) {
    EXPECT_THAT(vocabulary_with(SentencePieceWriter().trainer(3, 1)).reason,
                HasSubstr("tokenizer.model is no SentencePiece model of pairs that leaves text as it is"));
    write_text(folder / "plain.model",
               SentencePieceWriter().like_llama().piece("<unk>", 0, PieceType::unknown).piece("a", 0).contents());
    EXPECT_THAT(vocabulary_of_sentencepiece(folder / "plain.model").reason, HasSubstr("has no tokens for bytes"));
    write_text(folder / "ranks.model", "YQ== 0\nYg== 1\n");
    EXPECT_THAT(vocabulary_of_sentencepiece(folder / "ranks.model").reason, HasSubstr("is a list of ranks"));
}

TEST_F(GgufVocabularyTest, CharacterPairsThatLlamaCppReadsOtherwiseAreNamed) {
    const std::string name = "tokenizer-sentencepiece";
    EXPECT_THAT(vocabulary_with(name, "/normalizer", {{"type", "NFC"}}).reason, HasSubstr("marks or cuts at spaces"));
    EXPECT_THAT(vocabulary_with(name, "/model/byte_fallback", false).reason, HasSubstr("has no tokens for bytes"));
    EXPECT_THAT(vocabulary_with(name, "/model/ignore_merges", true).reason, HasSubstr("merges tokens in an order"));
    EXPECT_THAT(vocabulary_with(name, "/model/type", "Unigram").reason, HasSubstr("is no byte-pair encoding"));
    EXPECT_THAT(vocabulary_of_json(file_of_golden("tokenizer-llama2/tokenizer.json")).reason,
                HasSubstr("merges tokens in an order"))
        << "it has one merge per token, and llama.cpp would use more";
    const Json merges = Json::parse(read_text(file_of_golden(name) / "tokenizer.json")).at("model").at("merges");
    EXPECT_TRUE(vocabulary_with(name, "/model/merges", merges).tokenizer.has_value());
    Json fewer = merges;
    fewer.erase(fewer.size() - 1);
    EXPECT_THAT(vocabulary_with(name, "/model/merges", fewer).reason, HasSubstr("merges tokens in an order"));
}

// The names are those that llama.cpp's llama-vocab.cpp compares with.
TEST_F(GgufVocabularyTest, WaysOfCuttingHaveLlamaCppsNames) {
    EXPECT_EQ(vocabulary_of_json(file_of_golden("tokenizer-gpt2/tokenizer.json")).tokenizer->pre, "gpt-2");
    EXPECT_EQ(vocabulary_of_json(file_of_golden("tokenizer-llama3/tokenizer.json")).tokenizer->pre, "llama-bpe");
    EXPECT_EQ(vocabulary_of_json(file_of_golden("tokenizer-qwen2/tokenizer.json")).tokenizer->pre, "qwen2");
    EXPECT_EQ(vocabulary_of_json(file_of_golden("tokenizer-gpt2/tokenizer.json")).tokenizer->model, "gpt2");
}

TEST_F(GgufVocabularyTest, ByteLevelPairsThatLlamaCppReadsOtherwiseAreNamed) {
    EXPECT_THAT(vocabulary_with("tokenizer-llama3", "/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\w+").reason,
                HasSubstr("cuts text in a way that has no name in llama.cpp"));
    EXPECT_THAT(vocabulary_with("tokenizer-gpt2", "/normalizer", {{"type", "NFKC"}}).reason,
                HasSubstr("rewrites text before it cuts it"));
    EXPECT_THAT(vocabulary_with("tokenizer-gpt2", "/model/ignore_merges", true).reason,
                HasSubstr("takes whole words before it merges"));
}

TEST_F(GgufVocabularyTest, ABrokenFileIsNamed) {
    write_text(folder / "tokenizer.json", R"({"model": {"type": "BPE"}})");
    EXPECT_THAT([&] { (void)vocabulary_of_json(folder / "tokenizer.json"); },
                testing::ThrowsMessage<Error>(HasSubstr("tokenizer.json is no tokenizer.json that can be read")));
}

}  // namespace
}  // namespace accrue
