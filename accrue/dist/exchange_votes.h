#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accrue/dist/messages.h"

namespace accrue {

// Whether an exchange of sums counts, by what each member found in it: as long as it does not, it is done again. A member owns the
// range of its rank: it adds up what all have given of it.
class ExchangeVotes {
public:
    // By rank.
    explicit ExchangeVotes(std::vector<std::string> workers) : workers_(std::move(workers)), votes_(workers_.size()) {}

    // A member's vote on an exchange, counted from 0 on. Ready when all have voted on it; then they vote on the next one, or
    // hear the same again.
    [[nodiscard]] Soon<Verdict> vote(size_t rank, int64_t attempt, const ExchangeChecks& checks);
    // So many exchanges have a verdict.
    [[nodiscard]] int64_t decided() const { return decided_; }
    [[nodiscard]] bool is_committed() const { return verdict_.commits; }

private:
    void require_all_ranges(size_t rank, const ExchangeChecks& checks) const;
    [[nodiscard]] std::string fault_of_range(size_t owner) const;
    [[nodiscard]] Verdict verdict() const;

    std::vector<std::string> workers_;
    std::vector<std::optional<ExchangeChecks>> votes_;  // on the first exchange that has no verdict, by rank
    int64_t decided_ = 0;
    Verdict verdict_;  // on the last exchange that has one
};

}  // namespace accrue
