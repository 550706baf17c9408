#pragma once

#include <cstdint>
#include <string>

namespace accrue {

// What a measurement was made on, for its result file.
struct Machine {
    std::string processor = "unknown";
    int64_t processors = 0;  // that this process may use
    int64_t memory_bytes = 0;
    std::string system;  // name and release of the kernel
};

[[nodiscard]] Machine this_machine();

// How many processors this process may use; 0 if the system does not say.
[[nodiscard]] int64_t usable_processors();

}  // namespace accrue
