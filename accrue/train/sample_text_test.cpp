#include "accrue/train/sample_text.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(SampleTextTest, LargerModelsShowLessText) {
    EXPECT_EQ(shown_tokens(1'000'000, 16, 256), 300) << "as many as ever";
    const int64_t medium = shown_tokens(124'000'000, 16, 1024);
    EXPECT_LT(medium, 60);
    EXPECT_GT(medium, 30);
    EXPECT_LT(shown_tokens(124'000'000, 800, 1024), medium) << "a long prompt goes through the layers each time";
    EXPECT_EQ(shown_tokens(124'000'000, 800, 16), shown_tokens(124'000'000, 16, 16)) << "but no more than fits";
    EXPECT_EQ(shown_tokens(int64_t{70'000'000'000}, 16, 1024), 16) << "never nothing";
}

}  // namespace
}  // namespace accrue
