#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/file.h"
#include "accrue/base/test_places.h"
#include "accrue/data/tokenizers/tokenizer.h"

namespace accrue {
namespace {

using Ids = std::vector<int32_t>;

// What Hugging Face tokenizers made of the same texts (tests/golden/README.md).
class GoldenTokenizerTest : public testing::TestWithParam<const char*> {
protected:
    [[nodiscard]] static std::filesystem::path folder() { return source_folder() / "tests/golden" / GetParam(); }
};

TEST_P(GoldenTokenizerTest, EncodesAndDecodesAsTheReferenceDoes) {
    const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(folder());
    const auto cases = nlohmann::json::parse(read_text(folder() / "cases.json"));
    ASSERT_GT(cases.size(), 200U);
    for (const auto& one : cases) {
        const auto text = one.at("text").get<std::string>();
        const auto ids = one.at("ids").get<Ids>();
        EXPECT_EQ(tokenizer->encode(text, Special::with), ids) << one.at("text");
        EXPECT_EQ(tokenizer->encode(text, Special::without), one.at("ids_plain").get<Ids>()) << one.at("text");
        EXPECT_EQ(tokenizer->decode(ids, Special::without), one.at("decoded").get<std::string>()) << one.at("text");
    }
}

TEST_P(GoldenTokenizerTest, KnowsItsVocabulary) {
    const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(folder() / "tokenizer.json");
    EXPECT_EQ(tokenizer->vocabulary(), 2000);
    ASSERT_TRUE(tokenizer->end_of_document().has_value());
    const std::string end = tokenizer->token_text(*tokenizer->end_of_document());
    EXPECT_TRUE(end == "<|endoftext|>" || end == "</s>") << end;
    EXPECT_EQ(tokenizer->token_text(-1), "");
    EXPECT_EQ(tokenizer->token_text(2000), "");
    EXPECT_EQ(tokenizer->decode(Ids{-5, 2000, 1 << 30}, Special::with), "");
    EXPECT_EQ(tokenizer->fingerprint(), open_tokenizer(folder())->fingerprint());
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTokenizerTest,
                         testing::Values("tokenizer-gpt2", "tokenizer-llama3", "tokenizer-qwen2", "tokenizer-llama2"),
                         [](const auto& info) { return std::string(info.param).substr(10); });

TEST(GoldenTokenizersTest, HaveDifferentFingerprints) {
    const std::filesystem::path golden = source_folder() / "tests/golden";
    EXPECT_NE(open_tokenizer(golden / "tokenizer-gpt2")->fingerprint(),
              open_tokenizer(golden / "tokenizer-llama3")->fingerprint());
    EXPECT_NE(open_tokenizer(golden / "tokenizer-gpt2")->fingerprint(), open_tokenizer("byte")->fingerprint());
}

}  // namespace
}  // namespace accrue
