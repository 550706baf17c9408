#include "accrue/base/process_age.h"

#include <chrono>

#include <gtest/gtest.h>

#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"

namespace accrue {
namespace {

using Clock = std::chrono::steady_clock;

TEST(ProcessAgeTest, AProcessGrowsOlderAsFastAsTheClock) {
    const auto outer = Clock::now();
    const auto before = process_age_seconds();
    const auto inner = Clock::now();
    ASSERT_TRUE(before);
    EXPECT_GE(*before, -0.02) << "to about 10 ms";
    while (Clock::now() - inner < std::chrono::milliseconds(2)) {
    }
    const double passed = process_age_seconds().value() - *before;
    constexpr double kRounding = 1e-6;
    EXPECT_GE(passed, 0.002 - kRounding);
    EXPECT_LE(passed, std::chrono::duration<double>(Clock::now() - outer).count() + kRounding);
}

TEST(ProcessAgeTest, ANameWithBracketsAndSpacesIsNoTrap) {
    const TemporaryFolder folder;
    std::filesystem::create_directories(folder / "proc/self");
    write_text(folder / "proc/self/stat", "7 (a) b (c) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 0 20 21\n");
    const double since_boot = process_age_seconds(folder.path()).value();
    write_text(folder / "proc/self/stat", "7 (a) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 1000 20 21\n");
    EXPECT_LT(process_age_seconds(folder.path()).value(), since_boot);
}

TEST(ProcessAgeTest, WithoutProcNobodyKnows) {
    const TemporaryFolder folder;
    EXPECT_FALSE(process_age_seconds(folder.path()));
    std::filesystem::create_directories(folder / "proc/self");
    write_text(folder / "proc/self/stat", "7 (a) R 1 2\n");
    EXPECT_FALSE(process_age_seconds(folder.path()));
}

}  // namespace
}  // namespace accrue
