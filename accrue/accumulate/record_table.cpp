#include "accrue/accumulate/record_table.h"

#include <algorithm>

#include "accrue/base/error.h"

namespace accrue {
namespace {

int64_t record_bytes(size_t grains, int64_t tensors) {
    return static_cast<int64_t>(grains) * tensors * static_cast<int64_t>(sizeof(GrainRecord));
}

}  // namespace

RecordTable::RecordTable(Kernels& kernels, std::span<const GradientSink::Grain> grains, int64_t tensors)
    : kernels_(kernels),
      grains_(grains.begin(), grains.end()),
      tensors_(tensors),
      memory_(kernels.arena().take(record_bytes(grains.size(), tensors) +
                                   static_cast<int64_t>(grains.size() * sizeof(double)))) {
    fill_zero(kernels_, memory_);
}

GrainRecord* RecordTable::record(int64_t grain, int64_t tensor) const {
    const auto found = std::ranges::find(grains_, grain, &GradientSink::Grain::number);
    if (found == grains_.end()) {
        throw Error(cat("grain ", grain, " is not in the micro-batch that has begun. This is a fault of the program."));
    }
    return reinterpret_cast<GrainRecord*>(memory_.data()) + (found - grains_.begin()) * tensors_ + tensor;
}

View<double> RecordTable::loss_sums() const {
    return {reinterpret_cast<double*>(memory_.data() + record_bytes(grains_.size(), tensors_)), 1, std::ssize(grains_)};
}

void RecordTable::write_to(GrainLedger& ledger) const {
    std::vector<std::byte> host(static_cast<size_t>(memory_.bytes()));
    download(kernels_, static_cast<const std::byte*>(memory_.data()), std::span(host));
    std::vector<GrainRecord> records(grains_.size() * static_cast<size_t>(tensors_));
    std::vector<double> losses(grains_.size());
    const auto of_records = std::as_writable_bytes(std::span(records));
    const auto of_losses = std::as_writable_bytes(std::span(losses));
    std::copy_n(host.begin(), of_records.size(), of_records.begin());
    std::copy_n(host.begin() + std::ssize(of_records), of_losses.size(), of_losses.begin());
    for (size_t place = 0; place < grains_.size(); ++place) {
        const auto& [number, counted_tokens] = grains_[place];
        for (int64_t tensor = 0; tensor < tensors_; ++tensor) {
            ledger.record(number, tensor) =
                records[place * static_cast<size_t>(tensors_) + static_cast<size_t>(tensor)];
        }
        ledger.grain(number) = {.finished = true, .loss_sum = losses[place], .counted_tokens = counted_tokens};
    }
}

}  // namespace accrue
