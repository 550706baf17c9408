#include "accrue/data/samples/dataset.h"

#include <array>
#include <span>

#include "accrue/base/hash.h"

namespace accrue {

std::string fingerprint_of(const Dataset& dataset) {
    Hasher hasher;
    for (int64_t index = 0; index < dataset.size(); ++index) {
        const Sample sample = dataset.sample(index);
        // The length keeps a boundary between samples in the checksum.
        const std::array<int64_t, 1> length = {static_cast<int64_t>(sample.tokens.size())};
        hasher.add(std::as_bytes(std::span(length)));
        hasher.add(std::as_bytes(std::span(sample.tokens)));
        hasher.add(std::as_bytes(std::span(sample.targets)));
    }
    return hasher.digest();
}

}  // namespace accrue
