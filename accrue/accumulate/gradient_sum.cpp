#include "accrue/accumulate/gradient_sum.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "accrue/base/error.h"
#include "accrue/base/random.h"

namespace accrue {
namespace {

// What waits begins at whole pieces of so many bytes.
int64_t aligned(int64_t bytes) {
    constexpr int64_t kAlignment = 256;
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

GradientSum::GradientSum(std::vector<SumTensor> tensors, int64_t flat_elements, SumKind kind, Kernels& kernels,
                         Arena& memory)
    : tensors_(std::move(tensors)),
      flat_elements_(flat_elements),
      kind_(kind),
      kernels_(kernels),
      memory_(memory),
      sums_(memory.take(flat_elements * bytes_of(kind))),
      incomplete_(kernels, std::ssize(tensors_)) {}

void GradientSum::let_wait(int64_t grains) {
    const DeviceTraits traits = kernels_.traits();
    const int64_t places = kind_ == SumKind::exact ? std::min(grains, traits.most_waiting_grains) : 0;
    if (places == places_) {
        return;
    }
    complete();
    int64_t tiles = 0;
    for (const SumTensor& tensor : tensors_) {
        tiles += (tensor.rows * tensor.columns + traits.waiting_tile - 1) / traits.waiting_tile;
    }
    waiting_memory_ = {};
    places_ = places;
    if (places > 0) {
        waiting_memory_ =
            kernels_.arena().take(places * place_bytes() + aligned(places * tiles * traits.waiting_tile_bytes));
    }
}

void GradientSum::open(int64_t grains, Units units, uint64_t rounding_seed, int64_t loss_scale) {
    forget();
    units_ = std::move(units);
    rounding_seed_ = rounding_seed;
    loss_scale_ = loss_scale;
    ledger_ = GrainLedger(grains, std::ssize(tensors_));
    fill_zero(kernels_, sums_);
}

std::byte* GradientSum::start_of(const SumTensor& tensor) const {
    return sums_.data() + tensor.offset * bytes_of(kind_);
}

int64_t GradientSum::place_bytes() const {
    return aligned(flat_elements_ * static_cast<int64_t>(sizeof(float)));
}

// Grains that find no place add what waits first; a micro-batch of more grains than there are places does not wait.
void GradientSum::begin(std::span<const Grain> grains) {
    const int64_t count = std::ssize(grains);
    if (incomplete_.is_full_for(count)) {
        complete();
    }
    numbers_.clear();
    if (count <= places_) {
        if (places_taken_ + count > places_) {
            add_waiting();
        }
        first_place_ = places_taken_;
        places_taken_ += count;
        std::ranges::transform(grains, std::back_inserter(numbers_), &Grain::number);
    }
    incomplete_.begin(grains);
}

float* GradientSum::waiting_place(int64_t grain, const SumTensor& tensor) const {
    const auto found = std::ranges::find(numbers_, grain);
    if (found == numbers_.end()) {
        return nullptr;
    }
    const int64_t place = first_place_ + (found - numbers_.begin());
    return reinterpret_cast<float*>(waiting_memory_.data() + place * place_bytes()) + tensor.offset;
}

SumView GradientSum::sum_of(int64_t grain, int64_t tensor) {
    const SumTensor& place = tensors_[static_cast<size_t>(tensor)];
    return {.kind = kind_,
            .data = start_of(place),
            .rows = place.rows,
            .columns = place.columns,
            .per_unit = kind_ == SumKind::exact ? units_.per_unit(tensor) : 1.0,
            .rounding_key = mix(rounding_seed_, static_cast<uint64_t>(grain), static_cast<uint64_t>(tensor)),
            .record = incomplete_.current().record(grain, tensor),
            .unscale = 1 / static_cast<float>(loss_scale_),
            .waiting = waiting_place(grain, place)};
}

void GradientSum::end() {
    if (incomplete_.grains() >= kernels_.traits().most_incomplete) {
        complete();
    } else {
        kernels_.submit();
    }
}

void GradientSum::add_waiting() const {
    op::CompleteSums completed;
    if (places_ > 0) {
        const std::span<std::byte> all(waiting_memory_.data(), static_cast<size_t>(waiting_memory_.bytes()));
        completed.waiting = all.first(static_cast<size_t>(places_ * place_bytes()));
        completed.memory = all.subspan(completed.waiting.size());
    }
    kernels_.run(completed);
    places_taken_ = 0;
}

void GradientSum::complete() const {
    if (incomplete_.empty()) {
        return;
    }
    add_waiting();
    incomplete_.write_to(ledger_);
}

// What the device still owes must not reach sums of another window.
void GradientSum::forget() {
    if (!incomplete_.empty()) {
        add_waiting();
        incomplete_.clear();
    }
}

const GrainLedger& GradientSum::ledger() const {
    complete();
    return ledger_;
}

void GradientSum::add(const GradientSum& other) {
    if (kind_ != SumKind::exact || other.kind_ != SumKind::exact) {
        throw Error("only exact sums can be added: all others depend on the order of the grains");
    }
    if (units_ != other.units_) {
        throw Error("sums with different units cannot be added: both sides must open the window alike");
    }
    complete();
    ledger_.add(other.ledger());
    const auto all_of = [this](const GradientSum& sum) {
        return View<int64_t>(reinterpret_cast<int64_t*>(sum.sums_.data()), 1, flat_elements_);
    };
    kernels_.run(op::AddSums{.others = all_of(other), .sums = all_of(*this)});
}

std::span<std::byte> GradientSum::device_bytes() const {
    complete();
    return {sums_.data(), static_cast<size_t>(flat_elements_ * bytes_of(kind_))};
}

void GradientSum::restore(GrainLedger ledger, Units units, uint64_t rounding_seed, int64_t loss_scale) {
    forget();
    ledger_ = std::move(ledger);
    units_ = std::move(units);
    rounding_seed_ = rounding_seed;
    loss_scale_ = loss_scale;
}

MeanGradient GradientSum::mean() const {
    return {*this, 1.0 / static_cast<double>(ledger().counted_tokens())};
}

MeanView GradientSum::sum_over_tokens(int64_t tensor) const {
    complete();
    const SumTensor& place = tensors_[static_cast<size_t>(tensor)];
    return {.kind = kind_,
            .data = start_of(place),
            .elements = place.rows * place.columns,
            .factor = kind_ == SumKind::exact ? units_.unit(tensor) : 1.0};
}

MeanView MeanGradient::of(int64_t tensor) const {
    MeanView view = sum_->sum_over_tokens(tensor);
    view.factor *= factor_;
    return view;
}

std::vector<double> numbers_of(Kernels& kernels, const MeanView& view, int64_t first, int64_t count) {
    const int64_t bytes = bytes_of(view.kind);
    std::vector<std::byte> host(static_cast<size_t>(count * bytes));
    download(kernels, static_cast<const std::byte*>(view.data) + first * bytes, std::span(host));
    const MeanView here{.kind = view.kind, .data = host.data(), .elements = count, .factor = view.factor};
    std::vector<double> numbers(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
        numbers[static_cast<size_t>(i)] = here.at(i);
    }
    return numbers;
}

MeanGradient MeanGradient::scaled(double factor) const {
    return {*sum_, factor_ * factor};
}

double MeanGradient::norm(Kernels& kernels) const {
    std::vector<MeanView> gradients;
    for (int64_t tensor = 0; tensor < std::ssize(sum_->tensors_); ++tensor) {
        gradients.push_back(of(tensor));
    }
    const Leased<double> squares = take_matrix<double>(kernels.arena(), 1, 1);
    kernels.run(op::SquaredNorm{.gradients = gradients, .result = squares.view});
    return std::sqrt(downloaded(kernels, squares.view).front());
}

}  // namespace accrue
