#pragma once

#include <array>

#include "accrue/base/words.h"

namespace accrue {

// The devices there are. To add one: its folder, a word here, and a line in each function of device.cpp.
enum class DeviceKind {
    cpu,
    reference,  // slow and plain: the specification of the others
};

[[nodiscard]] constexpr auto words_for(DeviceKind) {
    return std::to_array<Word<DeviceKind>>({{"cpu", DeviceKind::cpu}, {"reference", DeviceKind::reference}});
}

}  // namespace accrue
