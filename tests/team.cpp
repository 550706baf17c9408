#include "tests/team.h"

#include <algorithm>
#include <numeric>

namespace accrue::testing {

// One worker's sight of the team.
class Team::Member final : public Assignment, public Reducer {
public:
    Member(Team& team, size_t number) : team_(team), number_(number) {}

    void begin(const WindowRecord& window, const GrainLedger& mine) override;
    [[nodiscard]] std::vector<int64_t> next(int64_t most) override;
    [[nodiscard]] LikelyGrains likely_next(int64_t most) const override;
    [[nodiscard]] Agreement agree(const GrainLedger& mine, Wish wish) override;
    void add_everyones(GradientSum& sum) override;
    [[nodiscard]] Role gather(GradientSum& sum) override;

private:
    Team& team_;
    size_t number_;
};

Team::Team(Sharing sharing)
    : sharing_(std::move(sharing)),
      epoch_of_(sharing_.shares.size()),
      present_(sharing_.shares.size()),
      reserved_(sharing_.shares.size()),
      first_(sharing_.shares.size()) {
    for (size_t number = 0; number < sharing_.shares.size(); ++number) {
        members_.push_back(std::make_unique<Member>(*this, number));
    }
}

Team::~Team() = default;

Workers Team::worker(size_t number) {
    return {.assignment = *members_[number], .reducer = *members_[number]};
}

int64_t Team::taken_back() const {
    const std::lock_guard lock(mutex_);
    return taken_back_;
}

void Team::begin_epoch() {
    ++epoch_;
    arrived_ = 0;
    changed_.notify_all();
}

void Team::leave(size_t number) {
    const std::lock_guard lock(mutex_);
    epoch_of_[number] = -1;
    --present_;
    begin_epoch();
}

void Team::check_epoch(size_t number) const {
    if (epoch_of_[number] != epoch_) {
        throw WorkerLost();
    }
}

template <class Work>
void Team::meet(std::unique_lock<std::mutex>& lock, const Work& work) {
    const int64_t round = round_;
    const int64_t epoch = epoch_;
    if (++arrived_ < present_) {
        changed_.wait(lock, [&] { return round_ != round || epoch_ != epoch; });
        if (round_ == round) {
            throw WorkerLost();
        }
        return;
    }
    work();
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
}

// Of the missing grains.
void Team::share_out() {
    const std::vector<int64_t> missing = begun_.missing();
    int64_t all_shares = 0;
    for (size_t number = 0; number < reserved_.size(); ++number) {
        all_shares += epoch_of_[number] < 0 ? 0 : sharing_.shares[number];
    }
    const auto begin_of = [&](int64_t shares) {
        // Those with shares may all be gone: whoever is last then has everything.
        return missing.begin() + (all_shares > 0 ? std::ssize(missing) * shares / all_shares : 0);
    };
    int64_t shares = 0;
    auto begin = missing.begin();
    for (size_t number = 0; number < reserved_.size(); ++number) {
        shares += epoch_of_[number] < 0 ? 0 : sharing_.shares[number];
        const bool is_last = std::none_of(epoch_of_.begin() + static_cast<int64_t>(number) + 1, epoch_of_.end(),
                                          [](int64_t epoch) { return epoch >= 0; });
        const auto end = epoch_of_[number] < 0 ? begin : is_last ? missing.end() : begin_of(shares);
        reserved_[number].assign(begin, end);
        begin = end;
    }
    first_ = reserved_;
    is_taken_back_ = false;
    stops_ = false;
}

void Team::Member::begin(const WindowRecord& window, const GrainLedger& mine) {
    std::unique_lock lock(team_.mutex_);
    team_.epoch_of_[number_] = team_.epoch_;
    if (team_.is_first_to_come()) {
        team_.record_ = window;
        team_.begun_ = GrainLedger(mine.grains(), mine.tensors());
    }
    if (team_.record_ != window) {
        throw Error(cat("workers differ in what a window is: ", to_json(team_.record_), " and ", to_json(window)));
    }
    team_.begun_.add(mine);
    team_.meet(lock, [&] { team_.share_out(); });
}

bool Team::must_wait(size_t number) const {
    const bool has_begun = reserved_[number].size() < first_[number].size();
    return number == 0 && sharing_.taking_back == Sharing::TakingBack::always && has_begun && !is_taken_back_ &&
           !reserved_[number].empty() && present_ > 1 && !stops_;
}

// The last of whoever has most.
void Team::take_back(size_t number, int64_t most) {
    std::vector<int64_t>& richest = *std::max_element(reserved_.begin(), reserved_.end(),
                                                      [](const auto& a, const auto& b) { return a.size() < b.size(); });
    const auto begin = richest.end() - std::min(most, std::ssize(richest));
    if (begin != richest.end()) {
        reserved_[number].assign(begin, richest.end());
        richest.erase(begin, richest.end());
        ++taken_back_;
        is_taken_back_ = true;
        changed_.notify_all();
    }
}

std::vector<int64_t> Team::Member::next(int64_t most) {
    std::unique_lock lock(team_.mutex_);
    team_.check_epoch(number_);
    const int64_t epoch = team_.epoch_;
    team_.changed_.wait(lock, [&] { return team_.epoch_ != epoch || !team_.must_wait(number_); });
    team_.check_epoch(number_);
    if (team_.stops_) {
        return {};
    }
    std::vector<int64_t>& mine = team_.reserved_[number_];
    if (mine.empty() && team_.sharing_.taking_back == Sharing::TakingBack::always) {
        team_.take_back(number_, most);
    }
    const auto end = mine.begin() + std::min(most, std::ssize(mine));
    std::vector<int64_t> grains(mine.begin(), end);
    mine.erase(mine.begin(), end);
    team_.changed_.notify_all();
    return grains;
}

LikelyGrains Team::Member::likely_next(int64_t most) const {
    const std::lock_guard lock(team_.mutex_);
    const bool goes_on = !team_.reserved_[number_].empty();
    const std::vector<int64_t>& from = goes_on ? team_.reserved_[number_] : team_.first_[number_];
    return {.window = goes_on ? LikelyGrains::Of::this_window : LikelyGrains::Of::next_window,
            .grains = {from.begin(), from.begin() + std::min(most, std::ssize(from))}};
}

Agreement Team::Member::agree(const GrainLedger& mine, Wish wish) {
    std::unique_lock lock(team_.mutex_);
    team_.check_epoch(number_);
    if (team_.is_first_to_come()) {
        team_.agreed_ = GrainLedger(mine.grains(), mine.tensors());
        team_.agreed_to_stop_ = false;
    }
    team_.agreed_.add(mine);
    if (wish == Wish::stop) {
        team_.agreed_to_stop_ = team_.stops_ = true;
        team_.changed_.notify_all();
    }
    team_.meet(lock, [] {});
    return {.everyone = team_.agreed_, .stops = team_.agreed_to_stop_};
}

// In two ranges, as if two workers owned them.
void Team::add_to_total(const GradientSum& sum) {
    if (is_first_to_come()) {
        total_.assign(static_cast<size_t>(sum.elements()), 0);
    }
    const int64_t half = sum.elements() / 2;
    for (const auto& [first, count] : {std::pair(int64_t{0}, half), std::pair(half, sum.elements() - half)}) {
        std::vector<int64_t> range(static_cast<size_t>(count));
        sum.read_integers(first, range);
        for (size_t i = 0; i < range.size(); ++i) {
            int64_t& total = total_[static_cast<size_t>(first) + i];
            total = static_cast<int64_t>(static_cast<uint64_t>(total) + static_cast<uint64_t>(range[i]));
        }
    }
}

void Team::Member::add_everyones(GradientSum& sum) {
    std::unique_lock lock(team_.mutex_);
    team_.check_epoch(number_);
    team_.add_to_total(sum);
    team_.meet(lock, [] {});
    sum.replace(team_.total_, team_.agreed_);
}

Reducer::Role Team::Member::gather(GradientSum& sum) {
    std::unique_lock lock(team_.mutex_);
    team_.check_epoch(number_);
    team_.add_to_total(sum);
    team_.meet(lock, [] {});
    const auto keeper =
        std::find_if(team_.epoch_of_.begin(), team_.epoch_of_.end(), [](int64_t epoch) { return epoch >= 0; });
    if (keeper - team_.epoch_of_.begin() != static_cast<int64_t>(number_)) {
        return Role::other;
    }
    sum.replace(team_.total_, team_.agreed_);
    return Role::keeper;
}

}  // namespace accrue::testing
