#pragma once

#include <cstdio>
#include <exception>

namespace accrue {

// Of a measurement's program: its exit code; an error is named.
template <class Run>
[[nodiscard]] int run_or_say_error(const char* program, const Run& run) {
    try {
        return run();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", program, error.what());
        return 1;
    }
}

}  // namespace accrue
