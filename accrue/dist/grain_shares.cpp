#include "accrue/dist/grain_shares.h"

#include <algorithm>
#include <numeric>

namespace accrue {
namespace {

// A measurement counts half when 14 others have come after it.
constexpr double kKept = 0.95;

std::vector<double> with_the_mean_for_unknown(std::vector<double> speeds) {
    const double sum = std::accumulate(speeds.begin(), speeds.end(), 0.0);
    const auto known = std::count_if(speeds.begin(), speeds.end(), [](double speed) { return speed > 0; });
    std::replace_if(
        speeds.begin(), speeds.end(), [](double speed) { return speed <= 0; },
        known > 0 ? sum / static_cast<double>(known) : 1.0);
    return speeds;
}

}  // namespace

void WorkerSpeed::add(int64_t grains, double seconds) {
    if (seconds > 0) {
        grains_ = kKept * grains_ + static_cast<double>(grains);
        seconds_ = kKept * seconds_ + seconds;
    }
}

GrainShares::GrainShares(std::vector<int64_t> free, const std::vector<double>& speeds)
    : free_(std::move(free)), runs_(speeds.size()) {
    const std::vector<double> all = with_the_mean_for_unknown(speeds);
    const double sum = std::accumulate(all.begin(), all.end(), 0.0);
    double up_to = 0;
    int64_t first = 0;
    for (size_t rank = 0; rank < runs_.size(); ++rank) {
        up_to += all[rank];
        const bool is_last = rank + 1 == runs_.size();
        const auto last =
            is_last ? std::ssize(free_) : static_cast<int64_t>(static_cast<double>(free_.size()) * (up_to / sum));
        runs_[rank] = {.first = first, .last = last};
        first = last;
    }
}

// Half of what is left there, from its end, because its owner is at its beginning.
void GrainShares::take_from_the_slowest(Run& mine, int64_t least, const std::vector<double>& speeds) {
    const std::vector<double> all = with_the_mean_for_unknown(speeds);
    size_t slowest = 0;
    const auto seconds_left = [&](size_t rank) { return static_cast<double>(runs_[rank].size()) / all[rank]; };
    for (size_t rank = 1; rank < runs_.size(); ++rank) {
        if (seconds_left(rank) > seconds_left(slowest)) {
            slowest = rank;
        }
    }
    Run& theirs = runs_[slowest];
    const int64_t taken = std::min(theirs.size(), std::max(least, theirs.size() / 2));
    mine = {.first = theirs.last - taken, .last = theirs.last};
    theirs.last -= taken;
}

std::vector<int64_t> GrainShares::next(size_t rank, int64_t most, const std::vector<double>& speeds) {
    Run& mine = runs_[rank];
    if (mine.size() == 0) {
        take_from_the_slowest(mine, most, speeds);
    }
    const int64_t count = std::min(most, mine.size());
    const auto begin = free_.begin() + mine.first;
    mine.first += count;
    return {begin, begin + count};
}

}  // namespace accrue
