#include "accrue/data/tokenizers/tokenizer.h"

#include <array>

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(ByteTokenizerTest, EveryByteComesBack) {
    std::string text;
    for (int byte = 0; byte < 256; ++byte) {
        text.push_back(static_cast<char>(byte));
    }
    const ByteTokenizer tokenizer;
    const std::vector<int32_t> ids = tokenizer.encode(text);
    ASSERT_EQ(ids.size(), 256U);
    for (int32_t byte = 0; byte < 256; ++byte) {
        EXPECT_EQ(ids[static_cast<size_t>(byte)], byte);
    }
    EXPECT_EQ(tokenizer.decode(ids), text);
}

TEST(ByteTokenizerTest, OtherIdsWriteNothing) {
    const std::array<int32_t, 6> ids = {'a', ByteTokenizer::kEnd, -1, 100'000, 'b', 257};
    EXPECT_EQ(ByteTokenizer().decode(ids), "ab");
    EXPECT_LT(ByteTokenizer::kEnd, ByteTokenizer::kVocabulary);
}

TEST(ByteTokenizerTest, IsATokenizerLikeOthers) {
    const ByteTokenizer bytes;
    const Tokenizer& tokenizer = bytes;
    const std::array<int32_t, 3> ids = {'a', ByteTokenizer::kEnd, 'b'};
    EXPECT_EQ(tokenizer.encode("ab", Special::with), bytes.encode("ab"));
    EXPECT_EQ(tokenizer.decode(ids, Special::without), "ab");
    EXPECT_EQ(tokenizer.decode(ids, Special::with), "a<|endoftext|>b");
    EXPECT_EQ(tokenizer.vocabulary(), ByteTokenizer::kVocabulary);
    EXPECT_EQ(tokenizer.end_of_document(), ByteTokenizer::kEnd);
    EXPECT_EQ(tokenizer.token_text('a'), "a");
    EXPECT_EQ(tokenizer.token_text(ByteTokenizer::kEnd), "<|endoftext|>");
    EXPECT_EQ(tokenizer.token_text(-1), "");
    EXPECT_EQ(tokenizer.fingerprint().size(), 32U);
}

}  // namespace
}  // namespace accrue
