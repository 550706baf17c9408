#pragma once

#include <chrono>

namespace accrue {

// A clock that never goes back, for how long something took.
using Clock = std::chrono::steady_clock;

[[nodiscard]] inline double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// From any point in time.
[[nodiscard]] inline double seconds_now() {
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace accrue
