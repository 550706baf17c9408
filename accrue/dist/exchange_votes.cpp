#include "accrue/dist/exchange_votes.h"

#include <algorithm>

#include <fmt/ranges.h>

namespace accrue {

void ExchangeVotes::require_all_ranges(size_t rank, const ExchangeChecks& checks) const {
    if (checks.given.size() != workers_.size() || checks.total.size() != workers_.size()) {
        throw Error(cat("worker ", workers_[rank], " has checked ", checks.given.size(), " ranges that were given and ",
                        checks.total.size(), " of the total, but there are ", workers_.size(),
                        " workers with a range each"));
    }
}

// What does not add up in the range that this rank owns; empty = nothing. Where nobody has the right sum, whoever made it is to
// blame, and else those who have another.
std::string ExchangeVotes::fault_of_range(size_t owner) const {
    uint64_t sum = 0;
    for (const auto& vote : votes_) {
        sum += vote->given[owner];
    }
    std::vector<std::string> wrong;
    for (size_t rank = 0; rank < workers_.size(); ++rank) {
        if (votes_[rank]->total[owner] != sum) {
            wrong.push_back(workers_[rank]);
        }
    }
    if (wrong.empty()) {
        return "";
    }
    if (wrong.size() == workers_.size()) {
        return fmt::format("worker {} has added up something else than was given of range {}", workers_[owner], owner);
    }
    return fmt::format("worker {} got another sum of range {} than was given", fmt::join(wrong, " and worker "), owner);
}

Verdict ExchangeVotes::verdict() const {
    Verdict verdict;
    for (size_t owner = 0; owner < workers_.size(); ++owner) {
        if (const std::string fault = fault_of_range(owner); !fault.empty()) {
            verdict.fault += (verdict.fault.empty() ? "" : "; ") + fault;
        }
    }
    verdict.commits = verdict.fault.empty();
    return verdict;
}

Soon<Verdict> ExchangeVotes::vote(size_t rank, int64_t attempt, const ExchangeChecks& checks) {
    if (attempt + 1 == decided_) {
        return verdict_;
    }
    if (attempt != decided_ || is_committed()) {
        throw Error(cat("worker ", workers_[rank], " votes on exchange ", attempt, ", but exchange ",
                        is_committed() ? cat(decided_ - 1, " counts already") : cat(decided_, " is next")));
    }
    require_all_ranges(rank, checks);
    votes_[rank] = checks;
    if (std::find(votes_.begin(), votes_.end(), std::nullopt) != votes_.end()) {
        return std::nullopt;
    }
    verdict_ = verdict();
    ++decided_;
    std::fill(votes_.begin(), votes_.end(), std::nullopt);
    return verdict_;
}

}  // namespace accrue
