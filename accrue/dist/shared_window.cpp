#include "accrue/dist/shared_window.h"

#include <algorithm>

#include "accrue/base/error.h"

namespace accrue {

SharedWindow::SharedWindow(WindowRecord record, std::vector<std::string> workers)
    : record_(std::move(record)),
      workers_(std::move(workers)),
      begun_by_(workers_.size(), 0),
      holders_(static_cast<size_t>(record_.window.grains())),
      has_come_(workers_.size(), false),
      votes_(workers_) {}

std::string SharedWindow::holder_text(int64_t grain) const {
    const auto rank = holder(grain);
    return rank ? "worker " + workers_[*rank] : "nobody";
}

void SharedWindow::require_shape(size_t rank, const GrainLedger& mine) const {
    const int64_t tensors = everyone_ ? everyone_->tensors() : mine.tensors();
    if (mine.grains() != record_.window.grains() || mine.tensors() != tensors) {
        throw Error(cat("step ", record_.step, ": worker ", workers_[rank], " has a ledger of ", mine.grains(),
                        " grains and ", mine.tensors(), " tensors, but the window has ", record_.window.grains(),
                        " and ", tensors));
    }
}

void SharedWindow::require_free(size_t rank, const GrainLedger& mine) const {
    for (int64_t grain = 0; grain < mine.grains(); ++grain) {
        if (mine.grain(grain).finished && holder(grain)) {
            throw Error(cat("step ", record_.step, ": grain ", grain, " is in the sums of ", holder_text(grain),
                            " and of worker ", workers_[rank], ": adding them would count it twice"));
        }
    }
}

void SharedWindow::require_held(size_t rank, const GrainLedger& mine) const {
    for (int64_t grain = 0; grain < mine.grains(); ++grain) {
        if (mine.grain(grain).finished && holder(grain) != rank) {
            throw Error(cat("step ", record_.step, ": grain ", grain, " is in the sums of worker ", workers_[rank],
                            ", but was given to ", holder_text(grain)));
        }
    }
}

void SharedWindow::require_complete() const {
    std::string missing;
    for (const int64_t grain : everyone_->missing()) {
        missing += cat(missing.empty() ? "" : ", ", grain, " (given to ", holder_text(grain), ")");
    }
    if (!missing.empty()) {
        throw Error(cat("step ", record_.step, ": all workers have finished, but grains are missing: ", missing));
    }
}

void SharedWindow::begin(size_t rank, int64_t call, const WindowRecord& record, const GrainLedger& mine) {
    if (record != record_) {
        const auto first = std::find_if(begun_by_.begin(), begun_by_.end(), [](int64_t by) { return by != 0; });
        throw Error(cat("workers differ in what a window is: worker ",
                        workers_[static_cast<size_t>(first - begun_by_.begin())], " begins ", to_json(record_),
                        ", worker ", workers_[rank], " begins ", to_json(record),
                        ". All need the same program, settings and data."));
    }
    require_shape(rank, mine);
    require_free(rank, mine);
    for (int64_t grain = 0; grain < mine.grains(); ++grain) {
        if (mine.grain(grain).finished) {
            holders_[static_cast<size_t>(grain)] = rank;
        }
    }
    begun_by_[rank] = call;
    if (!everyone_) {
        everyone_.emplace(mine.grains(), mine.tensors());
    }
}

bool SharedWindow::is_begun_by_all() const {
    return std::find(begun_by_.begin(), begun_by_.end(), 0) == begun_by_.end();
}

void SharedWindow::share_out(const std::vector<double>& speeds) {
    std::vector<int64_t> free;
    for (int64_t grain = 0; grain < std::ssize(holders_); ++grain) {
        if (!holder(grain)) {
            free.push_back(grain);
        }
    }
    shares_ = GrainShares(std::move(free), speeds);
}

std::vector<int64_t> SharedWindow::give(size_t rank, int64_t most, const std::vector<double>& speeds) {
    if (stops_) {
        return {};
    }
    std::vector<int64_t> grains = shares_.next(rank, most, speeds);
    for (const int64_t grain : grains) {
        holders_[static_cast<size_t>(grain)] = rank;
    }
    return grains;
}

Soon<SharedWindow::Agreed> SharedWindow::agree(size_t rank, const GrainLedger& mine) {
    if (!has_come_[rank]) {
        require_shape(rank, mine);
        require_held(rank, mine);
        everyone_->add(mine);
        has_come_[rank] = true;
    }
    const bool all_have_come = std::find(has_come_.begin(), has_come_.end(), false) == has_come_.end();
    if (all_have_come && !agreed_stop_) {
        if (!stops_) {
            require_complete();
        }
        agreed_stop_ = stops_;  // who asks for a stop later than this comes too late
    }
    return is_agreed() ? Soon<Agreed>({.everyone = *everyone_, .stops = *agreed_stop_}) : std::nullopt;
}

bool SharedWindow::is_left_open() const {
    return is_agreed() && everyone_->finished() < everyone_->grains();
}

Soon<Verdict> SharedWindow::vote(size_t rank, int64_t attempt, const ExchangeChecks& checks) {
    if (!is_agreed()) {
        throw Error(cat("step ", record_.step, ": worker ", workers_[rank], " votes before all have agreed"));
    }
    return votes_.vote(rank, attempt, checks);
}

}  // namespace accrue
