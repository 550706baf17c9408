#include "accrue/model/device_batch.h"

#include <algorithm>

namespace accrue {
namespace {

constexpr int64_t kAlignment = 64;

template <class T>
std::span<const T> rows_of(const std::vector<T>& values, const RowRange& range) {
    return std::span(values).subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.rows));
}

// The slot of each row of the table: those that the lookup names, in their order; -1 for all others.
std::vector<int32_t> slots_of(const Lookup& lookup, int64_t rows) {
    std::vector<int32_t> slots(static_cast<size_t>(rows), -1);
    for (size_t slot = 0; slot < lookup.entries.size(); ++slot) {
        slots[static_cast<size_t>(lookup.entries[slot])] = static_cast<int32_t>(slot);
    }
    return slots;
}

}  // namespace

UploadPack::Place UploadPack::add_bytes(std::span<const std::byte> bytes, int64_t capacity, int64_t elements) {
    const Place place{.offset = std::ssize(host_), .elements = elements};
    host_.insert(host_.end(), bytes.begin(), bytes.end());
    const int64_t end = place.offset + std::max(capacity, std::ssize(bytes));
    host_.resize(static_cast<size_t>((end + kAlignment - 1) / kAlignment * kAlignment));
    return place;
}

void UploadPack::send(Kernels& kernels) {
    memory_ = kernels.arena().take(std::ssize(host_));
    upload(kernels, std::span<const std::byte>(host_), memory_.data());
    host_ = {};
}

DeviceBatch::DeviceBatch(Kernels& kernels, const TokenBatch& batch, AttentionMask mask, const LookupNeeds& needs)
    : tokens_(pack_.add(std::span<const int32_t>(batch.tokens))),
      targets_(pack_.add(std::span<const int32_t>(batch.targets))),
      positions_(pack_.add(std::span<const int32_t>(batch.positions))),
      row_keys_(pack_.add(std::span<const uint64_t>(batch.row_keys))) {
    for (const auto& [number, range] : batch.grains) {
        numbers_.push_back(number);
        ranges_.push_back(range);
    }
    // Every row may be a segment of its own.
    const auto segments = pack_.add(std::span<const Segment>(batch.segments), batch.rows());
    add_lookups(batch, needs);
    pack_.send(kernels);
    segments_ = Segments::of(batch.segments, pack_.at<Segment>(segments).data, mask);
    for (size_t grain = 0; grain < slots_.size(); ++grain) {
        const int64_t most = needs.holds_alike ? batch.rows() : ranges_[grain].rows;
        const auto& values = held_values_.emplace_back(take_matrix<float>(kernels.arena(), most, needs.held_columns));
        held_.push_back({.slot_of_row = pack_.at<int32_t>(slots_[grain]), .values = values.view});
    }
}

void DeviceBatch::add_lookups(const TokenBatch& batch, const LookupNeeds& needs) {
    constexpr int64_t kBytesOfRow = 96;  // of all arrays, about
    pack_.reserve(batch.rows() * kBytesOfRow + std::ssize(ranges_) * needs.held_rows_of * 4);
    for (const RowRange& range : ranges_) {
        if (needs.words) {
            const auto ids = rows_of(batch.tokens, range);
            const Lookup lookup = needs.holds_alike ? Lookup(ids, batch.tokens) : Lookup(ids);
            words_.push_back(add(lookup, needs.holds_alike ? batch.rows() : range.rows));
            if (needs.held_columns > 0) {
                slots_.push_back(pack_.add(std::span<const int32_t>(slots_of(lookup, needs.held_rows_of))));
            }
        }
        if (needs.positions) {
            position_indices_.push_back(add(Lookup(rows_of(batch.positions, range)), range.rows));
        }
    }
}

DeviceBatch::IndexPlace DeviceBatch::add(const Lookup& lookup, int64_t most_entries) {
    return {.entries = pack_.add(std::span<const int32_t>(lookup.entries), most_entries),
            .first_place = pack_.add(std::span<const int32_t>(lookup.first_place), most_entries + 1),
            .places = pack_.add(std::span<const int32_t>(lookup.places))};
}

LookupIndex DeviceBatch::index_at(const IndexPlace& place) const {
    return {.entries = pack_.at<int32_t>(place.entries),
            .first_place = pack_.at<int32_t>(place.first_place),
            .places = pack_.at<int32_t>(place.places)};
}

}  // namespace accrue
