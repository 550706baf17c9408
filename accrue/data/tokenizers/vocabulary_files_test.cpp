// vocab.json and merges.txt, against the tokenizer.json that has the same tokens.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/base/test_places.h"
#include "accrue/data/tokenizers/tokenizer.h"
#include "accrue/data/tokenizers/tokenizer_files.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;
using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

fs::path folder_of_golden(const std::string& name) {
    return source_folder() / "tests/golden" / name;
}

class VocabularyFilesTest : public testing::Test {
protected:
    // The tokens and merges of a golden tokenizer as the older files have them.
    void write_files_of(const std::string& name) const {
        const Json model = Json::parse(read_text(folder_of_golden(name) / "tokenizer.json")).at("model");
        write("vocab.json", model.at("vocab"));
        std::string merges = "#version: 0.2\n";
        for (const Json& merge : model.at("merges")) {
            merges += cat(merge[0].get<std::string>(), " ", merge[1].get<std::string>(), "\n");
        }
        write_text(folder_ / "merges.txt", merges);
    }
    // Three tokens and a merge.
    void write_small_files() const {
        write("vocab.json", {{"a", 0}, {"b", 1}, {"ab", 2}});
        write_text(folder_ / "merges.txt", "a b\n");
    }
    void write(const std::string& name, const Json& json) const { write_text(folder_ / name, json.dump()); }

    [[nodiscard]] Ids encoded(const std::string& text) const {
        return open_tokenizer(folder_.path())->encode(text, Special::with);
    }
    [[nodiscard]] std::string error() const {
        try {
            (void)open_tokenizer(folder_.path());
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }

    void expect_like(const std::string& name) const {
        const auto older = open_tokenizer(folder_.path());
        const auto newer = open_tokenizer(folder_of_golden(name));
        EXPECT_EQ(older->vocabulary(), newer->vocabulary());
        EXPECT_EQ(older->end_of_document(), newer->end_of_document());
        for (const Json& one : Json::parse(read_text(folder_of_golden(name) / "cases.json"))) {
            const auto text = one.at("text").get<std::string>();
            EXPECT_EQ(older->encode(text, Special::without), newer->encode(text, Special::without)) << text;
            EXPECT_EQ(older->encode_plain(text), newer->encode_plain(text)) << text;
            const Ids ids = newer->encode(text, Special::without);
            EXPECT_EQ(older->decode(ids, Special::without), newer->decode(ids, Special::without)) << text;
        }
    }

    TemporaryFolder folder_;
};

TEST_F(VocabularyFilesTest, OfGpt2GiveTheIdsOfItsTokenizerJson) {
    write_files_of("tokenizer-gpt2");
    write("tokenizer_config.json", {{"tokenizer_class", "GPT2Tokenizer"}, {"eos_token", "<|endoftext|>"}});
    expect_like("tokenizer-gpt2");
}

TEST_F(VocabularyFilesTest, OfQwenGiveTheIdsOfItsTokenizerJson) {
    write_files_of("tokenizer-qwen2");
    write("tokenizer_config.json", {{"tokenizer_class", "Qwen2TokenizerFast"},
                                    {"additional_special_tokens", {"<|begin_of_text|>"}},
                                    {"eos_token", {{"content", "<|endoftext|>"}}}});
    expect_like("tokenizer-qwen2");
}

// GPT-2's own folder names no class.
TEST_F(VocabularyFilesTest, WithoutAClassTheModelDecides) {
    write_files_of("tokenizer-gpt2");
    write("tokenizer_config.json", {{"model_max_length", 1024}});
    write("config.json", {{"model_type", "gpt2"}});
    expect_like("tokenizer-gpt2");
    write("config.json", {{"model_type", "qwen2"}});
    EXPECT_EQ(encoded("1234").size(), 4U) << "each digit is a word";
}

TEST_F(VocabularyFilesTest, ATokenizerJsonBesideThemIsTaken) {
    write_small_files();
    fs::copy_file(folder_of_golden("tokenizer-gpt2/tokenizer.json"), folder_ / "tokenizer.json");
    EXPECT_EQ(open_tokenizer(folder_.path())->vocabulary(), 2000);
}

TEST_F(VocabularyFilesTest, TheVocabularyFileStandsForItsFolder) {
    write_small_files();
    write("tokenizer_config.json", {{"tokenizer_class", "GPT2Tokenizer"}});
    EXPECT_EQ(open_tokenizer(folder_ / "vocab.json")->encode("abba", Special::with), (Ids{2, 1, 0}));
    EXPECT_EQ(open_tokenizer(folder_ / "vocab.json")->fingerprint(), open_tokenizer(folder_.path())->fingerprint());
}

TEST_F(VocabularyFilesTest, AddedAndSpecialTokensHaveTheIdsThatTheFilesBesideGive) {
    write_small_files();
    write("tokenizer_config.json", {{"tokenizer_class", "GPT2Tokenizer"},
                                    {"added_tokens_decoder", {{"5", {{"content", "<|sep|>"}, {"special", true}}}}}});
    write("added_tokens.json", {{"<word>", 3}});
    write("special_tokens_map.json", {{"eos_token", "<|eos|>"}, {"pad_token", {{"content", "<word>"}}}});
    EXPECT_EQ(encoded("ab<|sep|>a<word><|eos|>b"), (Ids{2, 5, 0, 3, 6, 1}));
    const auto tokenizer = open_tokenizer(folder_.path());
    EXPECT_EQ(tokenizer->vocabulary(), 7);
    EXPECT_EQ(tokenizer->end_of_document(), 6) << "what is named without an id gets the next one";
    EXPECT_EQ(tokenizer->decode(Ids{0, 5, 3, 6, 1}, Special::without), "ab") << "special tokens are no text";
}

TEST_F(VocabularyFilesTest, TheUsualEndOfDocumentIsAddedBehindTheVocabulary) {
    write_small_files();
    write("config.json", {{"model_type", "qwen2"}});
    EXPECT_EQ(open_tokenizer(folder_.path())->end_of_document(), 3);
}

TEST_F(VocabularyFilesTest, ASpaceOrABeginIsPutInFrontWhereTheSettingsSaySo) {
    write("vocab.json", {{"a", 0}, {"Ġ", 1}});
    write_text(folder_ / "merges.txt", "#version: 0.2\r\n\r\n");
    write("tokenizer_config.json",
          {{"tokenizer_class", "GPT2Tokenizer"}, {"add_prefix_space", true}, {"add_bos_token", true}});
    EXPECT_EQ(encoded("a"), (Ids{2, 1, 0}));
}

TEST_F(VocabularyFilesTest, AnotherKindIsAnErrorThatAsksForATokenizerJson) {
    write_small_files();
    const auto asks =
        AllOf(HasSubstr(folder_.path().string()), HasSubstr("tokenizer.json"), HasSubstr("data.tokenizer"));
    EXPECT_THAT(error(), AllOf(asks, HasSubstr("no tokenizer_class")));
    write("config.json", {{"model_type", "llama"}});
    EXPECT_THAT(error(), AllOf(asks, HasSubstr("no tokenizer_class")));
    write("tokenizer_config.json", {{"tokenizer_class", "RobertaTokenizer"}});
    EXPECT_THAT(error(), AllOf(asks, HasSubstr("RobertaTokenizer")));
}

TEST_F(VocabularyFilesTest, DamagedFilesAreNamed) {
    write_small_files();
    write("tokenizer_config.json", {{"tokenizer_class", "GPT2Tokenizer"}});
    write_text(folder_ / "merges.txt", "#version: 0.2\na b\nabba\n");
    EXPECT_THAT(error(), AllOf(HasSubstr("merges.txt"), HasSubstr("\"abba\" is not two tokens")));
    write_text(folder_ / "merges.txt", "a c\n");
    EXPECT_THAT(error(),
                AllOf(HasSubstr("vocab.json"), HasSubstr("merge 0 names c"), HasSubstr("not in the vocabulary")));
    write_text(folder_ / "merges.txt", "a b\n");
    write_text(folder_ / "vocab.json", "[1, 2]");
    EXPECT_THAT(error(), AllOf(HasSubstr("vocab.json"), HasSubstr("not a JSON object")));
    write_text(folder_ / "vocab.json", "{\"a\": ");
    EXPECT_THAT(error(), AllOf(HasSubstr("vocab.json is not JSON"), HasSubstr("Copy it again")));
    write_text(folder_ / "vocab.json", std::string(5000, '[') + std::string(5000, ']'));
    EXPECT_THAT(error(), HasSubstr("levels of brackets"));
    write("vocab.json", {{"a", -1}});
    EXPECT_THAT(error(), HasSubstr("has the id -1"));
    write_small_files();
    write("added_tokens.json", {{"<x>", "y"}});
    EXPECT_THAT(error(), AllOf(HasSubstr(folder_.path().string()), HasSubstr("cannot be read")));
    write("added_tokens.json", Json::object());
    write("tokenizer_config.json", {{"tokenizer_class", "GPT2Tokenizer"}, {"added_tokens_decoder", {{"7", 1}}}});
    EXPECT_THAT(error(), HasSubstr("cannot be read"));
    write("tokenizer_config.json",
          {{"tokenizer_class", "GPT2Tokenizer"}, {"added_tokens_decoder", {{"-7", {{"content", "<x>"}}}}}});
    EXPECT_THAT(error(),
                AllOf(HasSubstr((folder_ / "tokenizer_config.json").string()), HasSubstr("\"-7\", which is no id")));
    fs::remove(folder_ / "merges.txt");
    EXPECT_THAT(error(), AllOf(HasSubstr("has no tokenizer"), HasSubstr("vocab.json with merges.txt")));
}

}  // namespace
}  // namespace accrue
