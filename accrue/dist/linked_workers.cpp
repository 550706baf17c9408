#include "accrue/dist/linked_workers.h"

#include <algorithm>
#include <cstring>

#include "accrue/accumulate/norm_of_ranges.h"
#include "accrue/base/random.h"

namespace accrue {
namespace {

// A network, or a machine's memory, that changes what it is given so often is beyond what doing it again mends.
constexpr int64_t kMostAttempts = 5;

constexpr uint64_t kChecks = 0x636865636b73;

}  // namespace

void LinkedWorkers::begin(const WindowRecord& window, const GrainLedger& mine) {
    record_ = window;
    last_.clear();
    link_.begin(membership_.next_call(), window, mine);
}

std::vector<int64_t> LinkedWorkers::next(int64_t most) {
    last_ = link_.lease(membership_.next_call(), most);
    return last_;
}

// Grains are given in runs of consecutive ones.
LikelyGrains LinkedWorkers::likely_next(int64_t most) const {
    LikelyGrains likely;
    const int64_t first = last_.empty() ? 0 : last_.back() + 1;
    const int64_t end = std::min(first + most, record_.window.grains());
    for (int64_t grain = first; grain < end; ++grain) {
        likely.grains.push_back(grain);
    }
    return likely;
}

Agreement LinkedWorkers::agree(const GrainLedger& mine, Wish wish) {
    agreed_ = link_.agree(membership_.next_call(), mine, wish == Wish::stop);
    return {.everyone = agreed_.everyone, .stops = agreed_.stops};
}

template <class Attempt>
void LinkedWorkers::until_committed(const Attempt& attempt) {
    for (int64_t number = 0;; ++number) {
        const Verdict verdict =
            attempt(number, mix(kChecks, static_cast<uint64_t>(record_.step), static_cast<uint64_t>(number)));
        if (verdict.commits) {
            return;
        }
        if (number + 1 == kMostAttempts) {
            throw Error(cat("step ", record_.step, ": the workers' sums were changed on their way ", kMostAttempts,
                            " times in a row, and were not applied (the last time: ", verdict.fault,
                            "). Look at that machine's memory and network, then go on with accrue train --resume."));
        }
    }
}

void LinkedWorkers::exchange(GradientSum& sum, Total total, std::span<std::byte> on_device) {
    const IntegerSums sums{.elements = sum.elements(),
                           .read = [&sum](int64_t first, std::span<int64_t> into) { sum.read_integers(first, into); },
                           .write =
                               [&sum, total](int64_t first, std::span<const int64_t> from) {
                                   if (total == Total::is_taken) {
                                       sum.write_integers(first, from);
                                   }
                               },
                           .on_device = on_device};
    count([&] {
        until_committed([&](int64_t attempt, uint64_t seed) {
            Verdict verdict;
            (void)mesh_->add_up(sums, seed, [&](const ExchangeChecks& checks) {
                verdict = link_.vote(membership_.next_call(), attempt, checks);
                return verdict.commits;
            });
            return verdict;
        });
    });
}

void LinkedWorkers::share(std::vector<ElementRange> ranges, RangeKeepers keepers) {
    voted_.reset();
    kept_sums_.assign(ranges.size(), {});
    shared_ = SharedRanges{.ranges = std::move(ranges), .keepers = std::move(keepers), .totals = {}};
    shared_->totals.resize(kept_sums_.size());
    for (const int64_t range : ranges_kept_by(shared_->keepers, membership_.roster().rank)) {
        const auto number = static_cast<size_t>(range);
        kept_sums_[number].resize(static_cast<size_t>(shared_->ranges[number].count));
        shared_->totals[number] = kept_sums_[number];
    }
}

// All that an update needs is here before the vote, and stays after it: who does not hear the verdict can go on when it knows.
// The own sums are as they were until then.
void LinkedWorkers::add_to_keepers(GradientSum& sum) {
    const IntegerSums sums{.elements = sum.elements(),
                           .read = [&sum](int64_t first, std::span<int64_t> into) { sum.read_integers(first, into); },
                           .write = {}};
    const Roster& roster = membership_.roster();
    count([&] {
        until_committed([&](int64_t attempt, uint64_t seed) {
            voted_.reset();
            const ExchangeChecks checks = mesh_->reduce(sums, *shared_, seed);
            norm_ = norm_of(sum);
            voted_ = {.term = roster.term, .roster = roster.number, .step = record_.step, .attempt = attempt};
            return link_.vote(membership_.next_call(), attempt, checks);
        });
    });
    take_voted(sum);
}

void LinkedWorkers::take_voted(GradientSum& sum) {
    for (size_t range = 0; range < kept_sums_.size(); ++range) {
        if (!kept_sums_[range].empty()) {
            sum.write_integers(shared_->ranges[range].first, kept_sums_[range]);
        }
    }
    sum.take_ledger(agreed_.everyone);
    committed_ = voted_;
}

// Each range's squares by its owner, in the order of the ranges.
double LinkedWorkers::norm_of(const GradientSum& sum) {
    const std::vector<FlatTensor> tensors = flat_tensors(sum);
    std::string mine;
    for (size_t range = 0; range < shared_->ranges.size(); ++range) {
        if (shared_->keepers[range].front() == membership_.roster().rank) {
            const std::vector<double> squares =
                sum.squares_of(shared_->ranges[range], kept_sums_[range], agreed_.everyone.counted_tokens());
            mine.append(reinterpret_cast<const char*>(squares.data()), squares.size() * sizeof(double));
        }
    }
    const std::vector<std::string> told = mesh_->tell_all(mine);
    std::vector<size_t> used(told.size(), 0);
    std::vector<double> all;
    for (size_t range = 0; range < shared_->ranges.size(); ++range) {
        const auto owner = static_cast<size_t>(shared_->keepers[range].front());
        const size_t bytes = static_cast<size_t>(blocks_in(tensors, shared_->ranges[range])) * sizeof(double);
        if (bytes > told[owner].size() - used[owner]) {
            throw Error(cat("worker ", membership_.roster().workers[owner], " tells the squares of ",
                            told[owner].size() / sizeof(double),
                            " blocks, which are too few: it has another model or other settings."));
        }
        all.resize(all.size() + bytes / sizeof(double));
        std::memcpy(all.data() + (all.size() - bytes / sizeof(double)), told[owner].data() + used[owner], bytes);
        used[owner] += bytes;
    }
    return norm_of_squares(tensors, all);
}

void LinkedWorkers::add_everyones(GradientSum& sum) {
    if (shared_) {
        add_to_keepers(sum);
        return;
    }
    exchange(sum, Total::is_taken, sum.device_bytes());
    sum.take_ledger(agreed_.everyone);
}

Reducer::Role LinkedWorkers::gather(GradientSum& sum) {
    const bool keeps = membership_.roster().rank == 0;
    exchange(sum, keeps ? Total::is_taken : Total::is_left, {});  // not all take it, so that it comes to the host
    if (!keeps) {
        return Role::other;
    }
    sum.take_ledger(agreed_.everyone);
    return Role::keeper;
}

}  // namespace accrue
