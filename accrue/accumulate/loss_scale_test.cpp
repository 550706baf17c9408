#include "accrue/accumulate/loss_scale.h"

#include <vector>

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(LossScaleTest, IsAPowerOfTwoThatHalvesCanHold) {
    for (const int64_t value : {1, 2, 1024, 32768}) {
        EXPECT_TRUE(LossScale::is_possible(value)) << value;
    }
    for (const int64_t value : {-2, 0, 3, 1023, 65536}) {
        EXPECT_FALSE(LossScale::is_possible(value)) << value;
    }
}

TEST(LossScaleTest, HalvesDownToOne) {
    LossScale scale{.value = 4, .good_windows = 9};
    scale = scale.halved();
    EXPECT_EQ(scale, (LossScale{.value = 2, .good_windows = 0}));
    EXPECT_TRUE(scale.can_fall());
    scale = scale.halved();
    EXPECT_EQ(scale.value, 1);
    EXPECT_FALSE(scale.can_fall());
    EXPECT_EQ(scale.halved().value, 1);
}

TEST(LossScaleTest, DoublesAfterARunOfGoodWindowsUpToTheLargest) {
    LossScale scale{.value = 8192};
    std::vector<int64_t> values;
    for (int64_t window = 0; window < 9; ++window) {
        scale = scale.after_good_window(3);
        values.push_back(scale.value);
    }
    EXPECT_EQ(values, (std::vector<int64_t>{8192, 8192, 16384, 16384, 16384, 32768, 32768, 32768, 32768}));
    EXPECT_EQ(scale.good_windows, 0);
}

TEST(LossScaleTest, AnyOtherWindowEndsTheRun) {
    const LossScale scale = LossScale{.value = 16}.after_good_window(3).after_good_window(3);
    ASSERT_EQ(scale, (LossScale{.value = 16, .good_windows = 2}));
    EXPECT_EQ(scale.after_good_window(3).value, 32);
    EXPECT_EQ(scale.after_bad_window().after_good_window(3), (LossScale{.value = 16, .good_windows = 1}));
    EXPECT_EQ(scale.halved().after_good_window(3), (LossScale{.value = 8, .good_windows = 1}));
}

// A run of one: the scale is tried anew after every window.
TEST(LossScaleTest, ARunMayBeASingleWindow) {
    EXPECT_EQ(LossScale{.value = 2}.after_good_window(1), (LossScale{.value = 4, .good_windows = 0}));
}

}  // namespace
}  // namespace accrue
