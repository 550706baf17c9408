#pragma once

#include <array>

#include "accrue/base/words.h"

namespace accrue {

// What computes.
enum class DeviceKind {
    cpu,
    reference,  // slow and plain: the specification of the others
};

[[nodiscard]] constexpr auto words_for(DeviceKind) {
    return std::to_array<Word<DeviceKind>>({{"cpu", DeviceKind::cpu}, {"reference", DeviceKind::reference}});
}

}  // namespace accrue
