#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/base/test_places.h"
#include "accrue/data/tokenizers/tokenizer_files.h"

namespace accrue {
namespace {

using Ids = std::vector<int32_t>;

// " a", "ab", "abc", "bc" by rank behind "a", "b", "c", " ", and two bytes of an é.
constexpr const char* kRanks = "YQ== 0\nYg== 1\nYw== 2\nIA== 3\nYmM= 4\nYWI= 5\r\nYWJj 6\nIGE= 7\nww== 8\nqQ== 9\n\n";

TEST(RankTokenizerTest, TheLowestRankIsJoinedFirst) {
    const std::unique_ptr<Tokenizer> tokenizer = tokenizer_of_ranks(kRanks, "ranks");
    // bc has a lower rank than ab, then a and bc are a token together.
    EXPECT_EQ(tokenizer->encode("abc", Special::with), (Ids{6}));
    EXPECT_EQ(tokenizer->encode("abca", Special::with), (Ids{6, 0}));
    EXPECT_EQ(tokenizer->encode("ab ab", Special::with), (Ids{5, 3, 5}));
    EXPECT_EQ(tokenizer->encode("é<|endoftext|>a", Special::with), (Ids{8, 9, 10, 0}));
    EXPECT_EQ(tokenizer->decode(Ids{8, 9, 10, 7}, Special::without), "é a");
    EXPECT_EQ(tokenizer->vocabulary(), 11);
    EXPECT_EQ(tokenizer->end_of_document(), 10);
    EXPECT_EQ(tokenizer->token_text(7), "Ġa");
}

// As many lines as Llama 3 has, each a token of its own.
std::string many_ranks(int32_t count) {
    constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string lines;
    for (int32_t rank = 0; rank < count; ++rank) {
        std::string line;
        for (int shift = 18; shift >= 0; shift -= 6) {
            line += kLetters[static_cast<size_t>(rank >> shift & 63)];
        }
        lines += cat(line, " ", rank, "\n");
    }
    return lines;
}

TEST(RankTokenizerTest, APlainTextCannotSpellASpecialToken) {
    const auto gpt2 = open_tokenizer(source_folder() / "tests/golden/tokenizer-gpt2");
    const std::string text = "a<|endoftext|>b";
    const auto plain = gpt2->encode_plain(text);
    const int32_t end = gpt2->end_of_document().value();
    EXPECT_EQ(std::count(plain.begin(), plain.end(), end), 0);
    EXPECT_EQ(gpt2->decode(plain, Special::without), text);
    const auto marked = gpt2->encode(text, Special::without);
    EXPECT_EQ(std::count(marked.begin(), marked.end(), end), 1);
}

TEST(RankTokenizerTest, TheNumberOfLinesTellsTheSpecialTokens) {
    const std::unique_ptr<Tokenizer> llama = tokenizer_of_ranks(many_ranks(128'000), "ranks");
    EXPECT_EQ(llama->encode("<|end_of_text|>", Special::with), (Ids{128'000, 128'001}));
    EXPECT_EQ(llama->encode("<|end_of_text|>", Special::without), (Ids{128'001}));
    EXPECT_EQ(llama->end_of_document(), 128'001);
    const std::unique_ptr<Tokenizer> gpt4o = tokenizer_of_ranks(many_ranks(199'998), "ranks");
    EXPECT_EQ(gpt4o->end_of_document(), 199'999);
    EXPECT_EQ(gpt4o->vocabulary(), 200'019);
}

TEST(RankTokenizerTest, IsToldFromOtherFiles) {
    EXPECT_TRUE(looks_like_ranks("YQ== 0\nYg== 1\n"));
    EXPECT_FALSE(looks_like_ranks("{\"a\": 1}"));
    EXPECT_FALSE(looks_like_ranks("plain text 0"));
    EXPECT_FALSE(looks_like_ranks(""));
}

TEST(RankTokenizerTest, ABrokenLineIsNamed) {
    for (const char* line : {"YQ==", "YQ== x", "YQ== -1", "YQ== 1 2", "!!!! 1", "== 1", "YQ== 99999999999"}) {
        EXPECT_THAT(
            [&] { (void)tokenizer_of_ranks(cat("YQ== 0\n", line, "\n"), "my.tiktoken"); },
            testing::ThrowsMessage<Error>(testing::HasSubstr(cat("my.tiktoken line 2 is not a token in base64, a "
                                                                 "space and a rank: ",
                                                                 line))));
    }
}

}  // namespace
}  // namespace accrue
