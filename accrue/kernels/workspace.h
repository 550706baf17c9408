#pragma once

#include <cstdint>

#include "accrue/kernels/device_traits.h"
#include "accrue/kernels/operations.h"
#include "accrue/tensor/arena.h"

namespace accrue {

// What a device takes from its arena for itself, operation by operation, without computing anything. Planning asks it, so
// a device that takes more, or at other times, than it says here breaks the promise of memory.
class Workspace {
public:
    virtual ~Workspace() = default;
    // Takes and gives back blocks as the device does for this operation; returns how many bytes it held at its peak.
    virtual int64_t take(const Operation& operation, Arena& arena) const = 0;
    // As the device's (kernels.h).
    [[nodiscard]] virtual DeviceTraits traits() const { return {}; }
    // What the device takes when it is made, and keeps.
    [[nodiscard]] virtual int64_t kept_bytes() const { return 0; }
};

}  // namespace accrue
