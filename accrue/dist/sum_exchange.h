#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "accrue/accumulate/element_ranges.h"
#include "accrue/dist/exchange.h"
#include "accrue/dist/gloo_wire.h"
#include "accrue/dist/lanes.h"

namespace accrue {

// The elements that a rank adds up for everybody: as many for each as blocks of 1024 allow.
[[nodiscard]] ElementRange owned_range(int64_t elements, int64_t rank, int64_t size);

// Adds up everybody's sums: each member those of its range, which it then gives to the others. What it was is known to all
// before anything is written. Keeps memory for all elements.
class SumExchange {
public:
    SumExchange(GlooWire& wire, const MeshOptions& options)
        : rank_(options.rank), size_(options.size), disturb_(options.disturb), wire_(wire) {}

    // Reads the sums and holds everybody's. All members must come with as many elements.
    [[nodiscard]] ExchangeChecks add_up(const IntegerSums& sums, uint64_t seed);
    // Everybody's, as the last call made them.
    void write(const IntegerSums& sums) const;

private:
    // What a member exchanges at a time. All go round in the same order, so that each sends to one and receives from one.
    struct Job {
        int64_t to_rank = 0;
        int64_t from_rank = 0;
        int64_t piece = 0;      // of the ranges, both of mine and of the others
        bool is_first = false;  // job of that piece
    };
    [[nodiscard]] int64_t jobs() const;
    [[nodiscard]] Job job_of(int64_t number) const;
    [[nodiscard]] ElementRange piece_of(int64_t rank, int64_t number) const;
    [[nodiscard]] std::span<int64_t> total_of(const ElementRange& range) const {
        return {total_.get() + range.first, static_cast<size_t>(range.count)};
    }

    void make_room(int64_t elements);
    [[nodiscard]] std::vector<uint64_t> reduce(const IntegerSums& sums, uint64_t seed);
    [[nodiscard]] std::vector<uint64_t> gather(uint64_t seed);
    void show(Arrival::Of of, const Job& job, const ElementRange& range, std::span<int64_t> values) const;

    const int64_t rank_;
    const int64_t size_;
    const std::function<void(const Arrival&)> disturb_;
    GlooWire& wire_;
    int64_t elements_ = 0;
    int64_t room_ = 0;
    std::unique_ptr<int64_t[]> total_;  // before the lanes, whose messages go into it
    Lanes lanes_;
};

}  // namespace accrue
