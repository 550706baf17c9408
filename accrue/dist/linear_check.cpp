#include "accrue/dist/linear_check.h"

#include "accrue/base/random.h"

namespace accrue {

// 10 GB/s on one core at -O2 and -O3 without vector instructions; with AVX-512 the compiler makes it as fast as memory.
uint64_t linear_check(std::span<const int64_t> values, int64_t first, uint64_t seed) {
    constexpr uint64_t kStep = 0x9e3779b97f4a7c15ULL;  // of splitmix, whose finalizer mix() is
    uint64_t state = mix(seed) + static_cast<uint64_t>(first) * kStep;
    uint64_t check = 0;
    for (const int64_t value : values) {
        check += static_cast<uint64_t>(value) * (mix(state) | 1);
        state += kStep;
    }
    return check;
}

}  // namespace accrue
