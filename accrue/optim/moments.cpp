#include "accrue/optim/moments.h"

namespace accrue {
namespace {

std::span<std::byte> bytes_at(void* data, int64_t bytes) {
    return {static_cast<std::byte*>(data), static_cast<size_t>(bytes)};
}

}  // namespace

MomentBuffer::MomentBuffer(MomentFormat format, std::vector<OptimizedTensor> tensors, int64_t flat_elements,
                           Kernels& kernels, Arena& memory)
    : format_(format), tensors_(std::move(tensors)) {
    const bool coded = format == MomentFormat::eight_bits;
    elements_ = memory.take(flat_elements * (coded ? 1 : 4));
    fill_zero(kernels, elements_);
    if (!coded) {
        return;
    }
    int64_t blocks = 0;
    for (const OptimizedTensor& tensor : tensors_) {
        first_block_.push_back(blocks);
        blocks += moment_blocks(tensor.elements);
    }
    scales_ = memory.take(blocks * 4);
    fill_zero(kernels, scales_);
}

View<float> MomentBuffer::values_of(size_t tensor) const {
    const OptimizedTensor& place = tensors_[tensor];
    return {reinterpret_cast<float*>(elements_.data()) + place.moment_offset, 1, place.elements};
}

CodedView MomentBuffer::codes_of(size_t tensor) const {
    return {.codes = reinterpret_cast<uint8_t*>(elements_.data()) + tensors_[tensor].moment_offset,
            .scales = reinterpret_cast<float*>(scales_.data()) + first_block_[tensor]};
}

StoredMoment MomentBuffer::stored(std::string name) const {
    StoredMoment result{.name = std::move(name), .parts = {}};
    for (size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
        const int64_t elements = tensors_[tensor].elements;
        const auto number = static_cast<int64_t>(tensor);
        if (format_ == MomentFormat::fp32) {
            result.parts.push_back({number, "", "F32", bytes_at(values_of(tensor).data, elements * 4)});
        } else {
            const auto& [codes, scales] = codes_of(tensor);
            result.parts.push_back({number, "", "U8", bytes_at(codes, elements)});
            result.parts.push_back({number, ".scales", "F32", bytes_at(scales, moment_blocks(elements) * 4)});
        }
    }
    return result;
}

}  // namespace accrue
