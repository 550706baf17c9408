#include "accrue/accumulate/gradient_probe.h"

namespace accrue {

GradientProbe::GradientProbe(std::vector<Shape> tensors, int64_t grains, Kernels& kernels, int64_t loss_scale)
    : tensors_(std::move(tensors)),
      kernels_(kernels),
      loss_scale_(loss_scale),
      ledger_(grains, static_cast<int64_t>(tensors_.size())) {}

void GradientProbe::begin(std::span<const Grain> grains) {
    records_.emplace(kernels_, grains, std::ssize(tensors_));
}

SumView GradientProbe::sum_of(int64_t grain, int64_t tensor) {
    const auto& [rows, columns] = tensors_[static_cast<size_t>(tensor)];
    return {.rows = rows,
            .columns = columns,
            .record = records_->record(grain, tensor),
            .unscale = 1 / static_cast<float>(loss_scale_)};
}

void GradientProbe::end() {
    kernels_.run(op::CompleteSums{});
    std::vector<std::byte> host(records_->device_bytes().size());
    download(kernels_, records_->device_bytes().data(), std::span(host));
    records_->write_to(ledger_, host);
    records_.reset();
}

}  // namespace accrue
