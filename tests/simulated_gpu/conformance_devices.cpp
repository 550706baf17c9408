#include "accrue/kernels/conformance.h"

namespace accrue::conformance {

std::vector<std::string> devices_under_test() {
    return {"cuda"};
}

}  // namespace accrue::conformance
