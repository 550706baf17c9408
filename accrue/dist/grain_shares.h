#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace accrue {

// How fast a worker computes: the newest micro-batches count most.
class WorkerSpeed {
public:
    void add(int64_t grains, double seconds);
    // 0 = not known yet.
    [[nodiscard]] double grains_per_second() const { return seconds_ > 0 ? grains_ / seconds_ : 0; }

private:
    double grains_ = 0;
    double seconds_ = 0;
};

// Who computes which of a window's free grains: each member has a run of consecutive ones, as long as its speed says, and whoever
// is through takes from whoever would finish last. Each grain is given out once. Members are ranks; a speed of 0 is not known,
// and taken for the mean of the others.
class GrainShares {
public:
    GrainShares() = default;
    // `free` ascends.
    GrainShares(std::vector<int64_t> free, const std::vector<double>& speeds);

    // The next grains of a member, ascending, `most` at most. None: all are given out.
    [[nodiscard]] std::vector<int64_t> next(size_t rank, int64_t most, const std::vector<double>& speeds);

private:
    // Places in `free_` that are a member's and not given out.
    struct Run {
        int64_t first = 0;
        int64_t last = 0;  // behind the last one
        [[nodiscard]] int64_t size() const { return last - first; }
    };
    void take_from_the_slowest(Run& mine, int64_t least, const std::vector<double>& speeds);

    std::vector<int64_t> free_;
    std::vector<Run> runs_;
};

}  // namespace accrue
