#include "accrue/base/error.h"
#include "accrue/cli/commands.h"
#include "accrue/kernels/device.h"

namespace accrue {

std::string version_text() {
    Pool pool(0);
    Arena arena = Arena::dry();
    return cat("accrue ", ACCRUE_VERSION, " (", make_cpu_kernels(pool, arena)->description(), ")");
}

}  // namespace accrue
