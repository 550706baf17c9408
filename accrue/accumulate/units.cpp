#include "accrue/accumulate/units.h"

#include <algorithm>

namespace accrue {
namespace {

int32_t exponent_for(float largest) {
    int power = 0;
    const float fraction = std::frexp(largest, &power);  // largest = fraction * 2^power, fraction in [0.5, 1)
    const int ceil_log2 = fraction == 0.5F ? power - 1 : power;
    return ceil_log2 - Units::kDigits;
}

}  // namespace

Units Units::first(std::span<const float> largest) {
    const float overall = largest.empty() ? 0.0F : *std::max_element(largest.begin(), largest.end());
    // All gradients zero: any unit serves.
    const int32_t fallback = overall > 0 ? exponent_for(overall) : -kDigits;
    return Units(std::vector<int32_t>(largest.size(), fallback)).next(largest);
}

Units Units::next(std::span<const float> largest) const {
    Units result = *this;
    for (size_t tensor = 0; tensor < largest.size(); ++tensor) {
        if (largest[tensor] > 0) {
            result.exponents_[tensor] = exponent_for(largest[tensor]);
        }
    }
    return result;
}

std::vector<int64_t> Units::overflowing(std::span<const float> largest, int64_t grains) const {
    std::vector<int64_t> result;
    for (size_t tensor = 0; tensor < largest.size(); ++tensor) {
        const auto index = static_cast<int64_t>(tensor);
        if (static_cast<double>(largest[tensor]) * per_unit(index) * static_cast<double>(grains) >= 0x1p62) {
            result.push_back(index);
        }
    }
    return result;
}

Units Units::coarser(std::span<const int64_t> tensors) const {
    Units result = *this;
    for (const int64_t tensor : tensors) {
        result.exponents_[static_cast<size_t>(tensor)] += kReplayDigits;
    }
    return result;
}

}  // namespace accrue
