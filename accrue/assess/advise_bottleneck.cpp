#include "accrue/assess/advise_bottleneck.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace accrue {
namespace {

// A batch is loaded while the one before it is computed. A run that still waits has a loader that is slower than its
// computing, and then nothing else matters; a tenth leaves room for what a busy machine does to any thread.
constexpr double kWaitsForData = 0.1;
// Nothing is computed while sums are added up. From a quarter on, hiding that would help more than most other changes.
constexpr double kWaitsForNetwork = 0.25;
// What is computed again for want of memory. Little is enough: here it is known how to save it.
constexpr double kLostToMemory = 0.05;
// How far from their ceilings kernels are that have enough to do. Whole steps of large models reach 0.25 to 0.9 of the
// multiply-add rate: the lowest with AMX, whose rate is the highest (bench/results). A pass over memory reaches half of the
// bandwidth at least.
constexpr double kUsualOverArithmeticFloor = 4;
constexpr double kUsualOverStreamingFloor = 2;

double part_of(double some, double all) {
    return all > 0 ? some / all : 0;
}

}  // namespace

double WindowTimes::compute_seconds() const {
    return std::accumulate(kernels.begin(), kernels.end(), ordering_seconds);
}

double WindowTimes::seconds() const {
    return compute_seconds() + data_wait_seconds + synchronisation_seconds;
}

double WindowTimes::fixed_seconds() const {
    return kernels[static_cast<size_t>(Part::optimizer)] + synchronisation_seconds;
}

ComputeSplit split_compute(const WindowTimes& times, const WorkByPart& work, const Ceilings& ceilings) {
    ComputeSplit split{.overhead_seconds = times.ordering_seconds};
    for (size_t part = 0; part < work.size(); ++part) {
        const double arithmetic_floor = part_of(work[part].flops, ceilings.flops);
        const double streaming_floor = part_of(work[part].bytes, ceilings.bytes);
        const double usual =
            std::max(kUsualOverArithmeticFloor * arithmetic_floor, kUsualOverStreamingFloor * streaming_floor);
        const double explained = std::min(times.kernels[part], usual);
        (streaming_floor >= arithmetic_floor ? split.streaming_seconds : split.arithmetic_seconds) += explained;
        split.overhead_seconds += times.kernels[part] - explained;
    }
    return split;
}

std::string_view name_of(Bound bound) {
    switch (bound) {
        case Bound::compute:
            return "compute";
        case Bound::memory_bandwidth:
            return "memory_bandwidth";
        case Bound::overhead:
            return "overhead";
        case Bound::memory_capacity:
            return "memory_capacity";
        case Bound::data:
            return "data";
        case Bound::network:
            return "network";
    }
    return "";
}

Judgement judge(const WindowTimes& times, const ComputeSplit& split, double lost_to_memory) {
    const double all = times.seconds();
    const double data = part_of(times.data_wait_seconds, all);
    const double network = part_of(times.synchronisation_seconds, all);
    const double capacity = lost_to_memory * part_of(times.compute_seconds(), all);
    if (data >= kWaitsForData && data >= network) {
        return {.bound = Bound::data, .share = data};
    }
    if (network >= kWaitsForNetwork && network >= capacity) {
        return {.bound = Bound::network, .share = network};
    }
    if (capacity >= kLostToMemory) {
        return {.bound = Bound::memory_capacity, .share = capacity};
    }
    Judgement judgement{.bound = Bound::compute, .share = part_of(split.arithmetic_seconds, all)};
    for (const auto& [bound, seconds] : {std::pair{Bound::memory_bandwidth, split.streaming_seconds},
                                         std::pair{Bound::overhead, split.overhead_seconds}}) {
        if (part_of(seconds, all) > judgement.share) {
            judgement = {.bound = bound, .share = part_of(seconds, all)};
        }
    }
    return judgement;
}

double seconds_after(const ChangeFactors& change, const WindowTimes& now, Bound bound) {
    const double computing = now.compute_seconds() * change.compute;
    const double waiting = now.data_wait_seconds * change.window;
    const double loading = (now.compute_seconds() + now.data_wait_seconds) * change.window;
    return now.synchronisation_seconds + (bound == Bound::data ? std::max(computing, loading) : computing + waiting);
}

}  // namespace accrue
