#include "accrue/assess/advise_bottleneck.h"

#include <algorithm>
#include <numeric>

namespace accrue {
namespace {

// A batch is loaded while the one before it is computed. A run that still waits has a loader that is slower than its
// computing, and then nothing else matters; a tenth leaves room for what a busy machine does to any thread.
constexpr double kWaitsForData = 0.1;
// Nothing is computed while sums are added up. From a quarter on, hiding that would help more than most other changes.
constexpr double kWaitsForNetwork = 0.25;
// What is computed again for want of memory. Little is enough: here it is known how to save it.
constexpr double kLostToMemory = 0.05;

double part_of(double seconds, double all) {
    return all > 0 ? seconds / all : 0;
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

bool is_streaming(const Work& work, const Ceilings& ceilings) {
    return work.bytes * ceilings.flops >= work.flops * ceilings.bytes;
}

ComputeSplit split_compute(const WindowTimes& times, const WorkByPart& work, const Ceilings& ceilings) {
    ComputeSplit split{.arithmetic_seconds = times.ordering_seconds};
    for (size_t part = 0; part < work.size(); ++part) {
        (is_streaming(work[part], ceilings) ? split.streaming_seconds : split.arithmetic_seconds) +=
            times.kernels[part];
    }
    return split;
}

std::string_view name_of(Bound bound) {
    switch (bound) {
        case Bound::compute:
            return "compute";
        case Bound::memory_bandwidth:
            return "memory_bandwidth";
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
    return split.streaming_seconds > split.arithmetic_seconds
               ? Judgement{.bound = Bound::memory_bandwidth, .share = part_of(split.streaming_seconds, all)}
               : Judgement{.bound = Bound::compute, .share = part_of(split.arithmetic_seconds, all)};
}

double seconds_after(const ChangeFactors& change, const WindowTimes& now, Bound bound) {
    const double computing = now.compute_seconds() * change.compute;
    const double waiting = now.data_wait_seconds * change.window;
    const double loading = (now.compute_seconds() + now.data_wait_seconds) * change.window;
    return now.synchronisation_seconds + (bound == Bound::data ? std::max(computing, loading) : computing + waiting);
}

}  // namespace accrue
