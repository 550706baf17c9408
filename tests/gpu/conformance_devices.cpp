#include "accrue/kernels/conformance.h"

#include <cstdlib>

namespace accrue::conformance {

std::vector<std::string> devices_under_test() {
    ::setenv("ACCRUE_TEST_CUDA_WAIT", "1", 1);  // the table reads results without asking for them
    return {"cuda"};
}

}  // namespace accrue::conformance
