#include <cstdlib>

#include "tests/gpu/shared_heap.h"

#include "accrue/kernels/conformance.h"

namespace accrue::conformance {

std::vector<std::string> devices_under_test() {
    ::setenv("ACCRUE_TEST_CUDA_WAIT", "1", 1);  // the table reads results without asking for them
    return {"cuda"};
}

std::unique_ptr<Kernels> make_device(const std::string& /*name*/, Pool& /*pool*/, Arena& arena) {
    share_heap();
    return make_cuda_kernels(0, arena);
}

std::vector<Operation> operations_under_test() {
    return all_operations();
}

}  // namespace accrue::conformance
