#include "accrue/train/memory_budget.h"

#include <limits>

#include <gtest/gtest.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

MemoryBound machine_with(int64_t bytes) {
    return {.bytes = bytes, .reason = "the test says so", .address_bytes = std::numeric_limits<int64_t>::max()};
}

TEST(MemoryBudgetTest, TheSettingBindsWhereTheMachineHasMore) {
    Settings settings;
    settings.compute.memory = parse_byte_size("100MiB");
    EXPECT_EQ(budget_of(settings, machine_with(int64_t{1} << 40)).bytes, int64_t{100} << 20);
    EXPECT_EQ(budget_of(settings, machine_with(int64_t{1} << 40)).reason, "compute.memory is 100.00 MiB");
    EXPECT_EQ(budget_of(settings, machine_with(1000)).reason, "the test says so");
    settings.compute.memory.reset();
    EXPECT_EQ(budget_of(settings, machine_with(1000)).bytes, 1000);
}

TEST(MemoryBudgetTest, ARunThatDoesNotFitIsRefusedWithBothFigures) {
    const ArenaPlan plan{.resident_bytes = int64_t{3} << 30, .peak_bytes = int64_t{4} << 30};
    EXPECT_NO_THROW(check_memory(plan, int64_t{4} << 30));
    try {
        check_memory(plan, int64_t{2} << 30);
        FAIL() << "4 GiB do not fit into 2";
    } catch (const Error& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("4.00 GiB"), std::string::npos) << text;
        EXPECT_NE(text.find("2.00 GiB"), std::string::npos) << text;
        EXPECT_NE(text.find("micro_batch_grains"), std::string::npos) << text;
    }
    EXPECT_GT(available_memory().value_or(1), 0);
}

}  // namespace
}  // namespace accrue
