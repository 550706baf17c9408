// A GPU and the processor train the same job: what they show differs by rounding alone.

#include <cmath>
#include <vector>

#include "tests/support.h"
#include <gtest/gtest.h>

#include "accrue/kernels/device.h"
#include "accrue/kernels/gpus.h"
#include "accrue/observe/metrics_rows.h"

namespace accrue::testing {
namespace {

constexpr int kSteps = 20;

// The default job, in grains of one size: a grain is part of what is computed, and its default differs by device.
std::vector<double> losses_on(const std::string& device, const std::string& dtype) {
    const TemporaryFolder folder;
    const std::string root = (folder / "run").string();
    const ProgramResult result =
        run_program({"train", "--set", "compute.device=" + device, "--set", "compute.dtype=" + dtype, "--set",
                     cat("schedule.steps=", kSteps), "--set", "window.grain_samples=8", "--set", "run.folder=" + root,
                     "--set", "run.evaluate_steps=0"});
    EXPECT_EQ(result.exit_code, 0) << result.output;
    std::vector<double> losses;
    (void)read_metrics(folder / "run" / "metrics.jsonl", [&](const MetricsRow& row) { losses.push_back(row.loss); });
    return losses;
}

TEST(GpuAndProcessorTest, LossesAgreeAfterTwentySteps) {
    if (const Gpus gpus = gpus_of_machine(); gpus.found.empty()) {
        GTEST_SKIP() << gpus.why_none;
    }
    if (usual_device().kind != DeviceKind::cuda) {
        GTEST_SKIP() << "tests compute on the processor; on the GPU by make test-gpu";
    }
    for (const std::string dtype : {"fp32", "bf16"}) {
        SCOPED_TRACE(dtype);
        const std::vector<double> processor = losses_on("cpu", dtype);
        const std::vector<double> gpu = losses_on("cuda", dtype);
        ASSERT_EQ(processor.size(), kSteps);
        ASSERT_EQ(gpu.size(), kSteps);
        for (size_t step = 0; step < gpu.size(); ++step) {
            // One value in bf16 is rounded by up to 4e-3 of it; a window's loss is off by less, but not each by 2e-3.
            const double tolerance = dtype == "fp32" || step + 1 == gpu.size() ? 2e-3 : 4e-3;
            EXPECT_NEAR(gpu[step], processor[step], tolerance * processor[step]) << "step " << step + 1;
        }
        EXPECT_LT(gpu.back(), 0.9 * gpu.front()) << "nothing was learned that could differ";
    }
}

}  // namespace
}  // namespace accrue::testing
