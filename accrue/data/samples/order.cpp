#include "accrue/base/random.h"
#include "accrue/data/samples/dataset.h"

namespace accrue {

int64_t SampleOrder::sample_at(int64_t epoch, int64_t place) const {
    if (kind_ == Kind::sequential) {
        return place;
    }
    const Permutation permutation(mix(seed_, static_cast<uint64_t>(epoch)), static_cast<uint64_t>(size_));
    return static_cast<int64_t>(permutation[static_cast<uint64_t>(place)]);
}

}  // namespace accrue
