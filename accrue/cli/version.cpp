#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/cli/commands.h"
#include "accrue/kernels/device.h"
#include "accrue/kernels/gpus.h"

namespace accrue {
namespace {

// The GPUs that a run could take, a line each, or why there is none.
std::string gpus_text() {
    const Gpus gpus = gpus_of_machine();
    if (gpus.found.empty()) {
        return cat("no GPU: ", gpus.why_none);
    }
    const GpuSoftware software = gpu_software();
    std::string text;
    for (const Gpu& gpu : gpus.found) {
        text += cat(text.empty() ? "" : "\n", "cuda:", gpu.number, ": ", gpu.name, ", sm_", gpu.architecture, ", ",
                    format_bytes(gpu.memory_bytes), ", driver ", software.driver, ", ", software.library);
    }
    return text;
}

}  // namespace

std::string version_text() {
    Pool pool(0);
    Arena arena = Arena::dry();
    const GpuSoftware software = gpu_software();
    const std::string built =
        software.cuda.empty() ? "" : cat("built with CUDA ", software.cuda, " for ", software.architectures, "\n");
    return cat("accrue ", ACCRUE_VERSION, " (", make_cpu_kernels(pool, arena)->description(), ")\n", built,
               gpus_text());
}

}  // namespace accrue
