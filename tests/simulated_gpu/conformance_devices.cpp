#include <cstdlib>

#include "tests/simulated_gpu/runtime.h"

#include "accrue/kernels/conformance.h"

namespace accrue::conformance {
namespace {

// Of the cases that take most of the time: a number that has no divisor in common with those of options and of
// dtypes, so that each of them comes with some sizes.
constexpr size_t kEach = 5;

}  // namespace

std::vector<std::string> devices_under_test() {
    return {"cuda"};
}

// Another number of threads is another order of the GPU's threads and blocks: what a kernel makes must not depend on it.
std::unique_ptr<Kernels> make_device(const std::string& /*name*/, Pool& pool, Arena& arena) {
    setenv("ACCRUE_TEST_CUDA_WAIT", "1", 1);
    simulated::set_order(static_cast<uint64_t>(pool.threads() - 1));
    return make_cuda_kernels(0, arena);
}

std::vector<Operation> operations_under_test() {
    std::vector<Operation> all = all_operations();
    for (Operation& operation : all) {
        const bool is_slow = operation.name.starts_with("linear") || operation.name == "add_linear_weight_grad" ||
                             operation.name.ends_with("_norm_backward");
        if (!is_slow || std::getenv("ACCRUE_SIMULATED_GPU_ALL_CASES") != nullptr) {
            continue;
        }
        std::vector<Case> some;
        for (size_t i = 0; i < operation.cases.size(); i += kEach) {
            some.push_back(operation.cases[i]);
        }
        operation.cases = std::move(some);
    }
    return all;
}

}  // namespace accrue::conformance
