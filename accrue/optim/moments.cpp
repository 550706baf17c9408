#include "accrue/optim/moments.h"

#include <algorithm>

namespace accrue {
namespace {

std::span<std::byte> bytes_at(void* data, int64_t bytes) {
    return {static_cast<std::byte*>(data), static_cast<size_t>(bytes)};
}

}  // namespace

KeptMoments::KeptMoments(const std::vector<OptimizedTensor>& tensors, int64_t flat_elements, MomentShare share)
    : share_(std::move(share)) {
    for (const OptimizedTensor& tensor : tensors) {
        tensors_.push_back({.offset = tensor.moment_offset, .elements = tensor.elements});
    }
    if (share_.ranges.empty()) {
        share_ = {.ranges = {{.first = 0, .count = flat_elements}}, .places = 1};
    }
    for (const ElementRange& range : share_.ranges) {
        int64_t scales = 0;
        for (const TensorPiece& piece : pieces_in(tensors_, range)) {
            scales += moment_blocks(piece.count);
        }
        place_elements_ = std::max(place_elements_, range.count);
        place_scales_ = std::max(place_scales_, scales);
    }
    std::vector<int64_t> first;
    for (int64_t place = 0; place < share_.places; ++place) {
        first.push_back(place < std::ssize(share_.ranges) ? place : kNone);
    }
    keep(std::move(first));
}

void KeptMoments::keep(std::vector<int64_t> by_place) {
    by_place_ = std::move(by_place);
    pieces_.clear();
    for (int64_t place = 0; place < std::ssize(by_place_); ++place) {
        const int64_t number = by_place_[static_cast<size_t>(place)];
        if (number == kNone) {
            continue;
        }
        const ElementRange& range = share_.ranges[static_cast<size_t>(number)];
        int64_t scale = place * place_scales_;
        for (const TensorPiece& piece : pieces_in(tensors_, range)) {
            const int64_t flat = tensors_[static_cast<size_t>(piece.tensor)].offset + piece.first;
            pieces_.push_back({.of = piece,
                               .range = number,
                               .element = place * place_elements_ + flat - range.first,
                               .scale = scale});
            scale += moment_blocks(piece.count);
        }
    }
}

MomentBuffer::MomentBuffer(MomentFormat format, const KeptMoments& kept, Kernels& kernels, Arena& memory)
    : format_(format) {
    const bool coded = format == MomentFormat::eight_bits;
    elements_ = memory.take(kept.elements() * (coded ? 1 : 4));
    fill_zero(kernels, elements_);
    if (coded) {
        scales_ = memory.take(kept.scales() * 4);
        fill_zero(kernels, scales_);
    }
}

View<float> MomentBuffer::values_of(const KeptPiece& piece) const {
    return {reinterpret_cast<float*>(elements_.data()) + piece.element, 1, piece.of.count};
}

CodedView MomentBuffer::codes_of(const KeptPiece& piece) const {
    return {.codes = reinterpret_cast<uint8_t*>(elements_.data()) + piece.element,
            .scales = reinterpret_cast<float*>(scales_.data()) + piece.scale};
}

StoredMoment MomentBuffer::stored(std::string name, const KeptMoments& kept) const {
    StoredMoment result{.name = std::move(name), .format = format_, .parts = {}};
    for (const KeptPiece& piece : kept.pieces()) {
        const auto& [tensor, first, count] = piece.of;
        if (format_ == MomentFormat::fp32) {
            result.parts.push_back(
                {tensor, "", "F32", bytes_at(values_of(piece).data, count * 4), first * 4, piece.range});
        } else {
            const auto& [codes, scales] = codes_of(piece);
            result.parts.push_back({tensor, "", "U8", bytes_at(codes, count), first, piece.range});
            result.parts.push_back({tensor, ".scales", "F32", bytes_at(scales, moment_blocks(count) * 4),
                                    moment_blocks(first) * 4, piece.range});
        }
    }
    return result;
}

}  // namespace accrue
