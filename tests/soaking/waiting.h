#pragma once

#include <chrono>
#include <thread>

#include "accrue/base/clock.h"

namespace accrue::soaking {

inline void pause_for(double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// Asks again and again; false: not within so many seconds.
template <class Happens>
[[nodiscard]] bool wait_until(double seconds, const Happens& happens) {
    constexpr auto kLook = std::chrono::milliseconds(3);
    for (const auto start = Clock::now(); !happens();) {
        if (seconds_since(start) > seconds) {
            return false;
        }
        std::this_thread::sleep_for(kLook);
    }
    return true;
}

}  // namespace accrue::soaking
