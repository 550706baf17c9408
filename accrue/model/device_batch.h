#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "accrue/kernels/kernels.h"
#include "accrue/model/lookup.h"
#include "accrue/model/model.h"

namespace accrue {

// Arrays that are brought to a device in one piece.
class UploadPack {
public:
    // Where an array will be, once all are there.
    struct Place {
        int64_t offset = 0;
        int64_t elements = 0;
    };
    // Keeps room for `capacity` elements, however many there are: the plan of a run must hold for any data.
    template <class T>
    Place add(std::span<const T> values, int64_t capacity) {
        return add_bytes(std::as_bytes(values), capacity * static_cast<int64_t>(sizeof(T)), std::ssize(values));
    }
    template <class T>
    Place add(std::span<const T> values) {
        return add(values, std::ssize(values));
    }
    void reserve(int64_t bytes) { host_.reserve(static_cast<size_t>(bytes)); }
    void send(Kernels& kernels);

    template <class T>
    [[nodiscard]] View<const T> at(const Place& place) const {
        return {reinterpret_cast<const T*>(memory_.data() + place.offset), 1, place.elements};
    }

private:
    Place add_bytes(std::span<const std::byte> bytes, int64_t capacity, int64_t elements);

    std::vector<std::byte> host_;  // until it is sent
    Arena::Block memory_;
};

// What training needs of a batch besides its rows.
struct LookupNeeds {
    bool words = false;        // their embedding is trained
    bool positions = false;    // they have an embedding, which is trained
    int64_t held_columns = 0;  // of the rows of a tied embedding that wait for their second source; 0 = none wait
    int64_t held_rows_of = 0;  // the vocabulary
    bool holds_alike = false;  // a row that one grain holds back is held back by all
};

// A micro-batch on the device: its rows, its segments and, for training, which rows of the embeddings its grains read.
class DeviceBatch {
public:
    DeviceBatch(Kernels& kernels, const TokenBatch& batch, AttentionMask mask, const LookupNeeds& needs = {});

    [[nodiscard]] int64_t rows() const { return tokens_.elements; }
    [[nodiscard]] View<const int32_t> tokens() const { return pack_.at<int32_t>(tokens_); }
    [[nodiscard]] View<const int32_t> targets() const { return pack_.at<int32_t>(targets_); }
    [[nodiscard]] View<const int32_t> positions() const { return pack_.at<int32_t>(positions_); }
    [[nodiscard]] View<const uint64_t> row_keys() const { return pack_.at<uint64_t>(row_keys_); }
    [[nodiscard]] const Segments& segments() const { return segments_; }

    [[nodiscard]] std::span<const int64_t> grain_numbers() const { return numbers_; }
    [[nodiscard]] std::span<const RowRange> grain_rows() const { return ranges_; }
    [[nodiscard]] LookupIndex words_of(size_t grain) const { return index_at(words_[grain]); }
    [[nodiscard]] LookupIndex positions_of(size_t grain) const { return index_at(position_indices_[grain]); }
    // One for each grain; none where nothing is held.
    [[nodiscard]] std::span<const HeldRows> held() const { return held_; }

private:
    struct IndexPlace {
        UploadPack::Place entries;
        UploadPack::Place first_place;
        UploadPack::Place places;
    };
    IndexPlace add(const Lookup& lookup, int64_t most_entries);
    void add_lookups(const TokenBatch& batch, const LookupNeeds& needs);
    [[nodiscard]] LookupIndex index_at(const IndexPlace& place) const;

    UploadPack pack_;
    UploadPack::Place tokens_;
    UploadPack::Place targets_;
    UploadPack::Place positions_;
    UploadPack::Place row_keys_;
    Segments segments_;
    std::vector<int64_t> numbers_;
    std::vector<RowRange> ranges_;
    std::vector<IndexPlace> words_;
    std::vector<IndexPlace> position_indices_;
    std::vector<UploadPack::Place> slots_;
    std::vector<Leased<float>> held_values_;
    std::vector<HeldRows> held_;
};

}  // namespace accrue
