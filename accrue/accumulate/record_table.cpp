#include "accrue/accumulate/record_table.h"

#include <algorithm>

#include "accrue/base/error.h"

namespace accrue {
namespace {

int64_t record_bytes(int64_t grains, int64_t tensors) {
    return grains * tensors * static_cast<int64_t>(sizeof(GrainRecord));
}

}  // namespace

int64_t RecordTable::bytes_for(int64_t grains, int64_t tensors) {
    return record_bytes(grains, tensors) + grains * static_cast<int64_t>(sizeof(double));
}

RecordTable::RecordTable(Kernels& kernels, std::span<const GradientSink::Grain> grains, int64_t tensors)
    : grains_(grains.begin(), grains.end()),
      tensors_(tensors),
      memory_(kernels.arena().take(bytes_for(std::ssize(grains), tensors))),
      place_(memory_.data()) {
    fill_zero(kernels, memory_);
}

RecordTable::RecordTable(std::byte* place, std::span<const GradientSink::Grain> grains, int64_t tensors)
    : grains_(grains.begin(), grains.end()), tensors_(tensors), place_(place) {}

GrainRecord* RecordTable::record(int64_t grain, int64_t tensor) const {
    const auto found = std::ranges::find(grains_, grain, &GradientSink::Grain::number);
    if (found == grains_.end()) {
        throw Error(cat("grain ", grain, " is not in the micro-batch that has begun. This is a fault of the program."));
    }
    return reinterpret_cast<GrainRecord*>(place_) + (found - grains_.begin()) * tensors_ + tensor;
}

View<double> RecordTable::loss_sums() const {
    return {reinterpret_cast<double*>(place_ + record_bytes(std::ssize(grains_), tensors_)), 1, std::ssize(grains_)};
}

std::span<const std::byte> RecordTable::device_bytes() const {
    return {place_, static_cast<size_t>(bytes_for(std::ssize(grains_), tensors_))};
}

void RecordTable::write_to(GrainLedger& ledger, std::span<const std::byte> host) const {
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

IncompleteRecords::IncompleteRecords(Kernels& kernels, int64_t tensors)
    : kernels_(kernels), tensors_(tensors), most_(kernels.traits().most_incomplete) {
    if (most_ > 1) {
        memory_ = kernels.arena().take(RecordTable::bytes_for(most_, tensors));
    }
}

bool IncompleteRecords::is_full_for(int64_t grains) const {
    return !tables_.empty() && grains_ + grains > most_;
}

void IncompleteRecords::begin(std::span<const GradientSink::Grain> grains) {
    const int64_t bytes = RecordTable::bytes_for(std::ssize(grains), tensors_);
    if (used_ + bytes > memory_.bytes()) {
        tables_.emplace_back(kernels_, grains, tensors_);
    } else {
        if (used_ == 0) {
            fill_zero(kernels_, memory_);
        }
        tables_.emplace_back(memory_.data() + used_, grains, tensors_);
        used_ += bytes;
    }
    grains_ += std::ssize(grains);
}

void IncompleteRecords::write_to(GrainLedger& ledger) {
    std::vector<std::byte> shared(static_cast<size_t>(used_));
    if (used_ > 0) {
        download(kernels_, static_cast<const std::byte*>(memory_.data()), std::span(shared));
    }
    size_t place = 0;
    for (const RecordTable& table : tables_) {
        const auto device = table.device_bytes();
        if (used_ > 0 && device.data() == memory_.data() + place) {
            table.write_to(ledger, std::span(shared).subspan(place, device.size()));
            place += device.size();
        } else {
            std::vector<std::byte> host(device.size());
            download(kernels_, device.data(), std::span(host));
            table.write_to(ledger, host);
        }
    }
    clear();
}

void IncompleteRecords::clear() {
    tables_.clear();
    used_ = 0;
    grains_ = 0;
}

}  // namespace accrue
