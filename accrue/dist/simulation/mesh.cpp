#include "accrue/dist/simulation/mesh.h"

#include <algorithm>

#include "accrue/base/random.h"

namespace accrue::simulation {
namespace {

size_t range_of(size_t element, size_t ranges) {
    return element % ranges;
}

}  // namespace

bool Operation::is_begun() const {
    return std::any_of(given.begin(), given.end(), [](const auto& each) { return each.has_value(); });
}

bool Operation::is_complete() const {
    return std::all_of(given.begin(), given.end(), [](const auto& each) { return each.has_value(); });
}

Integers Operation::total(size_t rank) const {
    Integers total = {};
    for (const auto& each : given) {
        for (size_t i = 0; i < kElements; ++i) {
            total[i] += each->sums.integers[i];
        }
    }
    if (corruption && corruption->receiver.value_or(rank) == rank) {
        for (size_t i = 0; i < kElements; ++i) {
            total[i] += range_of(i, given.size()) == corruption->range ? 1 : 0;
        }
    }
    return total;
}

Operation& SimulatedMesh::operation(size_t number) {
    while (operations_.size() <= number) {
        operations_.push_back({.given = std::vector<std::optional<Contribution>>(members_), .corruption = {}});
    }
    return operations_[number];
}

std::vector<uint64_t> checks_of(const Integers& integers, size_t ranges) {
    std::vector<uint64_t> checks(ranges, 0);
    for (size_t i = 0; i < kElements; ++i) {
        checks[range_of(i, ranges)] += integers[i] * (mix(i) | 1);
    }
    return checks;
}

}  // namespace accrue::simulation
