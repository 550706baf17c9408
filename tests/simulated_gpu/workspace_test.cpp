#include "tests/simulated_gpu/runtime.h"
#include <gtest/gtest.h>

#include "accrue/kernels/conformance.h"
#include "accrue/kernels/dry/dry_kernels.h"

namespace accrue {
namespace {

constexpr size_t kEach = 7;  // of the cases of an operation

// In memory that ends where the plan ends: a kernel that goes beyond its piece of it faults. The bits of the pieces are
// compared by the conformance table.
TEST(CudaWorkspaceTest, EveryOperationFitsIntoWhatIsPlannedForIt) {
    const DeviceChoice gpu{.name = DeviceKind::cuda};
    Pool pool(1);
    bool some_take_memory = false;
    for (const conformance::Operation& operation : conformance::operations_under_test()) {
        for (size_t i = 0; i < operation.cases.size(); i += kEach) {
            const conformance::Case& tried = operation.cases[i];
            Arena planned = Arena::dry();
            operation.run(*make_dry_kernels(planned, gpu, 1), tried);
            const int64_t bytes = planned.high_water_bytes();
            Arena real(make_cuda_backing(0, bytes));
            operation.run(*conformance::make_device("cuda", pool, real), tried);
            EXPECT_EQ(real.high_water_bytes(), bytes) << operation.name << ", " << text_of(tried);
            EXPECT_EQ(real.bytes_in_use(), 0);
            some_take_memory |= bytes > make_cuda_workspace(0)->kept_bytes();
        }
    }
    EXPECT_TRUE(some_take_memory);
}

}  // namespace
}  // namespace accrue
