#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "accrue/base/random.h"

namespace accrue::soaking {

// Random choices that can be repeated: the n-th is a hash of the seed and n.
class Dice {
public:
    explicit Dice(uint64_t seed) : seed_(seed) {}

    // From first to last, both included.
    [[nodiscard]] int64_t between(int64_t first, int64_t last) {
        return first + static_cast<int64_t>(mix(seed_, throws_++) % static_cast<uint64_t>(last - first + 1));
    }
    [[nodiscard]] bool one_in(int64_t many) { return between(1, many) == 1; }
    template <class T>
    [[nodiscard]] T one_of(const std::vector<T>& choices) {
        return choices[static_cast<size_t>(between(0, static_cast<int64_t>(choices.size()) - 1))];
    }

private:
    uint64_t seed_;
    uint64_t throws_ = 0;
};

}  // namespace accrue::soaking
