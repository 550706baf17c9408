// What GradientSum gives to other workers and takes from them.

#include <algorithm>

#include "accrue/accumulate/gradient_sum.h"
#include "accrue/base/error.h"

namespace accrue {

void GradientSum::require_whole(std::span<const int64_t> integers) const {
    if (kind_ != SumKind::exact) {
        throw Error("only exact sums can be exchanged: all others depend on the order of the grains");
    }
    if (std::ssize(integers) != flat_elements_) {
        throw Error(cat("the sums of another model cannot be taken: they have ", integers.size(),
                        " elements instead of ", flat_elements_));
    }
}

void GradientSum::read_integers(int64_t first, std::span<int64_t> into) const {
    if (kind_ != SumKind::exact || first < 0 || first + std::ssize(into) > flat_elements_) {
        throw Error(cat("elements ", first, " to ", first + std::ssize(into), " cannot be read as integers from ",
                        flat_elements_, kind_ == SumKind::exact ? " exact sums" : " sums that are not exact"));
    }
    std::copy_n(reinterpret_cast<const int64_t*>(sums_.data()) + first, into.size(), into.data());
}

void GradientSum::add(std::span<const int64_t> integers, const GrainLedger& ledger) {
    require_whole(integers);
    ledger_.add(ledger);
    auto* mine = reinterpret_cast<uint64_t*>(sums_.data());
    for (size_t i = 0; i < integers.size(); ++i) {
        mine[i] += static_cast<uint64_t>(integers[i]);
    }
}

void GradientSum::replace(std::span<const int64_t> integers, GrainLedger ledger) {
    require_whole(integers);
    ledger_ = std::move(ledger);
    std::copy(integers.begin(), integers.end(), reinterpret_cast<int64_t*>(sums_.data()));
}

}  // namespace accrue
