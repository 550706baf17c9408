#include "accrue/base/machine.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(MachineTest, KnowsWhatItRunsOn) {
    const Machine machine = this_machine();
    EXPECT_FALSE(machine.processor.empty());
    EXPECT_GE(machine.processors, 1);
    EXPECT_GT(machine.memory_bytes, int64_t{1} << 20);
    EXPECT_NE(machine.system.find(' '), std::string::npos) << machine.system;
}

}  // namespace
}  // namespace accrue
