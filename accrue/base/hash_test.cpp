#include "accrue/base/hash.h"

#include <string_view>

#include <gtest/gtest.h>

namespace accrue {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

// The digest of an empty file as `xxhsum -H2` prints it, which also pins the order of the digits.
TEST(HashTest, IsXxh3With128Bits) {
    EXPECT_EQ(hash_of({}), "99aa06d3014798d86001c324468d497f");
    EXPECT_EQ(Hasher().digest(), hash_of({}));
}

TEST(HashTest, PiecesGiveTheDigestOfTheWhole) {
    std::string text;
    for (int i = 0; i < 5000; ++i) {
        text += static_cast<char>(i * 7 + i / 256);
    }
    for (const size_t piece : {size_t{1}, size_t{63}, size_t{1024}, text.size()}) {
        Hasher hasher;
        for (size_t place = 0; place < text.size(); place += piece) {
            hasher.add(bytes_of(std::string_view(text).substr(place, piece)));
            hasher.add({});
        }
        EXPECT_EQ(hasher.digest(), hash_of(bytes_of(text))) << "pieces of " << piece;
    }
}

TEST(HashTest, OneBitChangesTheDigest) {
    EXPECT_NE(hash_of(bytes_of("a")), hash_of(bytes_of("c")));
    EXPECT_NE(hash_of(bytes_of("")), hash_of(bytes_of(std::string_view("\0", 1))));
    EXPECT_EQ(hash_of(bytes_of("a")).size(), 32U);
}

// The digest of an empty file as `xxhsum -H3` prints it.
TEST(HashTest, TheShortHashIsXxh3With64BitsAndFollowsItsSeed) {
    EXPECT_EQ(hash64_of({}, 0), 0x2d06800538d394c2U);
    EXPECT_NE(hash64_of(bytes_of("a"), 1), hash64_of(bytes_of("a"), 2));
}

TEST(HashTest, ADigestCanBeAskedInBetween) {
    Hasher hasher;
    hasher.add(bytes_of("ab"));
    EXPECT_EQ(hasher.digest(), hash_of(bytes_of("ab")));
    hasher.add(bytes_of("c"));
    EXPECT_EQ(hasher.digest(), hash_of(bytes_of("abc")));
}

}  // namespace
}  // namespace accrue
