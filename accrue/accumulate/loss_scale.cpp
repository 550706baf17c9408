#include "accrue/accumulate/loss_scale.h"

#include <algorithm>

namespace accrue {

LossScale LossScale::halved() const {
    return {.value = std::max(kSmallest, value / 2), .good_windows = 0};
}

LossScale LossScale::after_good_window(int64_t run) const {
    if (good_windows + 1 < run) {
        return {.value = value, .good_windows = good_windows + 1};
    }
    return {.value = std::min(kLargest, 2 * value), .good_windows = 0};
}

}  // namespace accrue
