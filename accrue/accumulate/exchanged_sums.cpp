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

void GradientSum::require_elements(int64_t first, int64_t count) const {
    if (kind_ != SumKind::exact || first < 0 || first + count > flat_elements_) {
        throw Error(cat("elements ", first, " to ", first + count, " cannot be exchanged as integers of ",
                        flat_elements_, kind_ == SumKind::exact ? " exact sums" : " sums that are not exact"));
    }
}

void GradientSum::read_integers(int64_t first, std::span<int64_t> into) const {
    require_elements(first, std::ssize(into));
    complete();
    download(kernels_, reinterpret_cast<const int64_t*>(sums_.data()) + first, into);
}

void GradientSum::write_integers(int64_t first, std::span<const int64_t> from) {
    require_elements(first, std::ssize(from));
    complete();
    upload(kernels_, from, reinterpret_cast<int64_t*>(sums_.data()) + first);
}

void GradientSum::take_ledger(GrainLedger ledger) {
    complete();
    ledger_ = std::move(ledger);
}

void GradientSum::add(std::span<const int64_t> integers, const GrainLedger& ledger) {
    require_whole(integers);
    complete();
    ledger_.add(ledger);
    // By pieces, so that no second buffer of the sums' size is needed on the device.
    constexpr int64_t kPiece = int64_t{1} << 13;
    const auto piece = take_matrix<int64_t>(kernels_.arena(), 1, std::min(kPiece, flat_elements_));
    for (int64_t first = 0; first < flat_elements_; first += kPiece) {
        const int64_t count = std::min(kPiece, flat_elements_ - first);
        upload(kernels_, integers.subspan(static_cast<size_t>(first), static_cast<size_t>(count)), piece.view.data);
        kernels_.run(op::AddSums{.others = piece.view.slice_columns(0, count),
                                 .sums = {reinterpret_cast<int64_t*>(sums_.data()) + first, 1, count}});
    }
}

void GradientSum::replace(std::span<const int64_t> integers, GrainLedger ledger) {
    require_whole(integers);
    forget();
    ledger_ = std::move(ledger);
    upload(kernels_, integers, reinterpret_cast<int64_t*>(sums_.data()));
}

}  // namespace accrue
