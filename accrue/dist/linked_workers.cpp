#include "accrue/dist/linked_workers.h"

#include <algorithm>

#include "accrue/base/clock.h"
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

void LinkedWorkers::exchange(GradientSum& sum, Total total) {
    const auto start = Clock::now();
    const int64_t sent_before = mesh_->sent_bytes();
    const IntegerSums sums{.elements = sum.elements(),
                           .read = [&sum](int64_t first, std::span<int64_t> into) { sum.read_integers(first, into); },
                           .write =
                               [&sum, total](int64_t first, std::span<const int64_t> from) {
                                   if (total == Total::is_taken) {
                                       sum.write_integers(first, from);
                                   }
                               }};
    for (int64_t attempt = 0;; ++attempt) {
        Verdict verdict;
        const uint64_t seed = mix(kChecks, static_cast<uint64_t>(record_.step), static_cast<uint64_t>(attempt));
        if (mesh_->add_up(sums, seed, [&](const ExchangeChecks& checks) {
                verdict = link_.vote(membership_.next_call(), attempt, checks);
                return verdict.commits;
            })) {
            break;
        }
        if (attempt + 1 == kMostAttempts) {
            throw Error(cat("step ", record_.step, ": the workers' sums were changed on their way ", kMostAttempts,
                            " times in a row, and were not applied (the last time: ", verdict.fault,
                            "). Look at that machine's memory and network, then go on with accrue train --resume."));
        }
    }
    totals_.seconds += seconds_since(start);
    totals_.sent_bytes += mesh_->sent_bytes() - sent_before;
}

void LinkedWorkers::add_everyones(GradientSum& sum) {
    exchange(sum, Total::is_taken);
    sum.take_ledger(agreed_.everyone);
}

Reducer::Role LinkedWorkers::gather(GradientSum& sum) {
    const bool keeps = membership_.roster().rank == 0;
    exchange(sum, keeps ? Total::is_taken : Total::is_left);
    if (!keeps) {
        return Role::other;
    }
    sum.take_ledger(agreed_.everyone);
    return Role::keeper;
}

}  // namespace accrue
