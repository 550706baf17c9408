#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "accrue/dist/network_address.h"

namespace accrue {

// What came of an attempt to reach somebody.
struct Reached {
    std::string own_address = {};  // of this machine, as the other one sees it; empty = it was not reached
    std::string why_not = {};
};

// Connects to where somebody should listen, says nothing, and hangs up.
[[nodiscard]] Reached reach(const NetworkAddress& address, std::chrono::milliseconds limit);

// At which other machines may reach this one: those of its interfaces that are no loopback and no link's own.
[[nodiscard]] std::vector<std::string> addresses_of_this_machine();

}  // namespace accrue
