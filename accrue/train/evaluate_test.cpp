#include "accrue/train/evaluate.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "accrue/base/test_places.h"

namespace accrue {
namespace {

// With characters of one to four bytes, in scripts that small vocabularies spell byte by byte.
const std::string kManyScripts = "Once upon a time  there was größe, 日本語 and a 😀.\n\tThe end";

// Of which one vocabulary knows the letters alone.
const std::string kOneScript = "Once upon a time  there was a small model. The end";

struct TokenizerAndText {
    const char* tokenizer;
    const std::string& text;
};

class CountedBytesTest : public testing::TestWithParam<TokenizerAndText> {
protected:
    const std::unique_ptr<Tokenizer> tokenizer_ = open_tokenizer(
        std::string(GetParam().tokenizer) == "byte" ? std::filesystem::path("byte")
                                                    : source_folder() / "tests/golden" / GetParam().tokenizer);
};

// Whatever the samples are cut to, also inside of characters.
TEST_P(CountedBytesTest, AreAsManyAsTheTextHas) {
    std::vector<int32_t> ids;
    for (int document = 0; document < 3; ++document) {
        ids.push_back(*tokenizer_->end_of_document());
        const std::vector<int32_t> text = tokenizer_->encode(GetParam().text, Special::with);
        ids.insert(ids.end(), text.begin(), text.end());
    }
    for (const int64_t length : {1, 2, 3, 7, 1000}) {
        EXPECT_EQ(counted_bytes(*dataset_of_tokens(ids, length, "ids"), *tokenizer_), 3 * std::ssize(GetParam().text))
            << length;
    }
}

INSTANTIATE_TEST_SUITE_P(All, CountedBytesTest,
                         testing::Values(TokenizerAndText{"tokenizer-gpt2", kManyScripts},
                                         TokenizerAndText{"tokenizer-llama3", kManyScripts},
                                         TokenizerAndText{"tokenizer-qwen2", kManyScripts},
                                         TokenizerAndText{"tokenizer-llama2", kOneScript},
                                         TokenizerAndText{"byte", kManyScripts}),
                         [](const auto& info) {
                             const std::string name = info.param.tokenizer;
                             return name == "byte" ? name : name.substr(10);
                         });

// Only the middle of each row counts.
class MaskedRow final : public Dataset {
public:
    explicit MaskedRow(Sample sample) : sample_(std::move(sample)) {}
    [[nodiscard]] int64_t size() const override { return 2; }
    [[nodiscard]] Sample sample(int64_t /*index*/) const override { return sample_; }
    [[nodiscard]] int64_t weight(int64_t /*index*/) const override { return 2; }
    [[nodiscard]] int64_t longest() const override { return std::ssize(sample_.tokens); }
    [[nodiscard]] LargestToken largest_token() const override { return {}; }
    [[nodiscard]] std::string fingerprint() const override { return ""; }

private:
    Sample sample_;
};

TEST(CountedBytesOfRowsTest, LeaveOutWhatIsMasked) {
    const ByteTokenizer bytes;
    const MaskedRow rows({.tokens = {'a', 'b', 'c', 'd'}, .targets = {-1, 'c', 'd', -1}});
    EXPECT_EQ(counted_bytes(rows, bytes), 4);
}

}  // namespace
}  // namespace accrue
