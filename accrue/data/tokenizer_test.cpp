#include "accrue/data/tokenizer.h"

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

}  // namespace
}  // namespace accrue
