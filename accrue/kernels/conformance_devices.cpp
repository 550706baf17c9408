#include "accrue/kernels/conformance.h"

namespace accrue::conformance {

std::vector<std::string> devices_under_test() {
    return {"portable", "avx2", "avx512", "avx512-bf16", "amx"};
}

}  // namespace accrue::conformance
