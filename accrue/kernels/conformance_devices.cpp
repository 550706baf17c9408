#include "accrue/kernels/conformance.h"

namespace accrue::conformance {

std::vector<std::string> devices_under_test() {
    return {"portable", "avx2", "avx512", "avx512-bf16", "amx"};
}

std::unique_ptr<Kernels> make_device(const std::string& name, Pool& pool, Arena& arena) {
    return make_cpu_kernels(pool, arena, name);
}

std::vector<Operation> operations_under_test() {
    return all_operations();
}

}  // namespace accrue::conformance
