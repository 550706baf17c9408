#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "accrue/accumulate/element_ranges.h"
#include "accrue/dist/exchange.h"
#include "accrue/dist/gloo_wire.h"
#include "accrue/dist/lanes.h"

namespace accrue {

// Adds up everybody's sums where members share the state: each range's by its owner, which passes them on to the other keepers.
// The sums are only read.
class RangeExchange {
public:
    RangeExchange(GlooWire& wire, const MeshOptions& options)
        : rank_(options.rank), size_(options.size), disturb_(options.disturb), wire_(wire) {}

    // Linear checks by range.
    struct Checks {
        std::vector<uint64_t> given;  // by me
        std::vector<uint64_t> total;  // of what I keep; of all others 0
    };
    [[nodiscard]] Checks add_up(const IntegerSums& sums, const SharedRanges& shared, uint64_t seed);

private:
    struct Piece {
        size_t range = 0;
        ElementRange elements;
    };
    // What a member exchanges at a time: all go round in the same order, so that each sends to one and receives from one.
    struct Job {
        int64_t to_rank = 0;
        int64_t from_rank = 0;
        size_t piece = 0;       // of those that I own, and of those that the others do
        bool is_first = false;  // job of that piece
    };
    void share_out(const SharedRanges& shared);
    [[nodiscard]] int64_t jobs() const;
    [[nodiscard]] Job job_of(int64_t number) const;
    [[nodiscard]] const Piece* piece_of(int64_t rank, size_t number) const;
    [[nodiscard]] static std::span<int64_t> total_of(const SharedRanges& shared, const Piece& piece);
    [[nodiscard]] static bool keeps(const SharedRanges& shared, int64_t rank, const Piece& piece);
    [[nodiscard]] std::vector<uint64_t> reduce(const IntegerSums& sums, const SharedRanges& shared, uint64_t seed);
    void pass_on(const SharedRanges& shared);
    [[nodiscard]] std::vector<uint64_t> checks_of_totals(const SharedRanges& shared, uint64_t seed) const;
    void show(Arrival::Of of, const Job& job, const Piece& piece, std::span<int64_t> values) const;

    const int64_t rank_;
    const int64_t size_;
    const std::function<void(const Arrival&)> disturb_;
    GlooWire& wire_;
    std::vector<std::vector<Piece>> owned_;  // by rank
    Lanes lanes_;
};

}  // namespace accrue
