#include "accrue/kernels/cpu/cpu_kernels.h"

#include <gtest/gtest.h>

#include "accrue/kernels/device.h"

namespace accrue {
namespace {

TEST(CpuKernelsTest, TheDescriptionNamesThreadsAndInstructions) {
    Arena arena(1);
    Pool one(1);
    Pool three(3);
    EXPECT_EQ(make_cpu_kernels(one, arena, "portable")->description(), "cpu, 1 thread, no vector instructions");
    EXPECT_EQ(make_cpu_kernels(three, arena, "portable")->description(), "cpu, 3 threads, no vector instructions");
    EXPECT_EQ(CpuKernels(three, arena, cpu::InstructionSet::avx512_bf16).description(),
              "cpu, 3 threads, AVX-512 with bf16");
}

TEST(CpuKernelsTest, AnUnknownInstructionSetIsAnError) {
    Arena arena(1);
    Pool pool(1);
    EXPECT_THROW((void)make_cpu_kernels(pool, arena, "avx1024"), Error);
}

}  // namespace
}  // namespace accrue
