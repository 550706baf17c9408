#include "accrue/accumulate/gradient_sum.h"

#include <cmath>

#include "accrue/base/error.h"
#include "accrue/base/random.h"

namespace accrue {

GradientSum::GradientSum(std::vector<SumTensor> tensors, int64_t flat_elements, SumKind kind, Kernels& kernels)
    : tensors_(std::move(tensors)),
      flat_elements_(flat_elements),
      kind_(kind),
      kernels_(kernels),
      sums_(kernels.arena().take(flat_elements * bytes_of(kind))) {}

void GradientSum::open(int64_t grains, Units units, uint64_t rounding_seed) {
    units_ = std::move(units);
    rounding_seed_ = rounding_seed;
    ledger_ = GrainLedger(grains, static_cast<int64_t>(tensors_.size()));
    kernels_.fill_zero(bytes());
}

std::byte* GradientSum::start_of(const SumTensor& tensor) const {
    return sums_.data() + tensor.offset * bytes_of(kind_);
}

SumView GradientSum::sum_of(int64_t grain, int64_t tensor) {
    const SumTensor& place = tensors_[static_cast<size_t>(tensor)];
    return {.kind = kind_,
            .data = start_of(place),
            .rows = place.rows,
            .columns = place.columns,
            .per_unit = kind_ == SumKind::exact ? units_.per_unit(tensor) : 1.0,
            .rounding_key = mix(rounding_seed_, static_cast<uint64_t>(grain), static_cast<uint64_t>(tensor)),
            .record = &ledger_.record(grain, tensor)};
}

void GradientSum::finish_grain(int64_t grain, double loss_sum, int64_t counted_tokens) {
    ledger_.grain(grain) = {.finished = true, .loss_sum = loss_sum, .counted_tokens = counted_tokens};
}

void GradientSum::add(const GradientSum& other) {
    if (kind_ != SumKind::exact || other.kind_ != SumKind::exact) {
        throw Error("only exact sums can be added: all others depend on the order of the grains");
    }
    if (units_ != other.units_) {
        throw Error("sums with different units cannot be added: both sides must open the window alike");
    }
    ledger_.add(other.ledger_);
    auto* mine = reinterpret_cast<uint64_t*>(sums_.data());
    const auto* theirs = reinterpret_cast<const uint64_t*>(other.sums_.data());
    for (int64_t i = 0; i < flat_elements_; ++i) {
        mine[i] += theirs[i];
    }
}

std::span<std::byte> GradientSum::bytes() const {
    return {sums_.data(), static_cast<size_t>(flat_elements_ * bytes_of(kind_))};
}

void GradientSum::restore(GrainLedger ledger, Units units, uint64_t rounding_seed) {
    ledger_ = std::move(ledger);
    units_ = std::move(units);
    rounding_seed_ = rounding_seed;
}

MeanGradient GradientSum::mean() const {
    return {*this, 1.0 / static_cast<double>(ledger_.counted_tokens())};
}

MeanView MeanGradient::of(int64_t tensor) const {
    const SumTensor& place = sum_->tensors_[static_cast<size_t>(tensor)];
    const double unit = sum_->kind_ == SumKind::exact ? sum_->units_.unit(tensor) : 1.0;
    return {.kind = sum_->kind_,
            .data = sum_->start_of(place),
            .elements = place.rows * place.columns,
            .factor = unit * factor_};
}

MeanGradient MeanGradient::scaled(double factor) const {
    return {*sum_, factor_ * factor};
}

double MeanGradient::norm(Kernels& kernels) const {
    double squares = 0;
    for (size_t tensor = 0; tensor < sum_->tensors_.size(); ++tensor) {
        squares += kernels.squared_norm(of(static_cast<int64_t>(tensor)));
    }
    return std::sqrt(squares);
}

}  // namespace accrue
