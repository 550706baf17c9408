#pragma once

#include <array>
#include <string_view>

#include "accrue/kernels/part.h"

namespace accrue {

// Where the time of one window goes, as one worker's clock saw it.
struct WindowTimes {
    double tokens = 0;                     // counted
    double rows = 0;                       // tokens that passed through the layers, counted or not
    std::array<double, kParts> kernels{};  // seconds by part
    double calls = 0;                      // of kernels
    double ordering_seconds = 0;           // computing, but in no kernel: the thread that orders the work
    double data_wait_seconds = 0;          // for batches that were not loaded in time
    double synchronisation_seconds = 0;    // until the sums of all workers were added up; 0 = one worker
    double synchronisation_bytes = 0;      // sent and received for that

    [[nodiscard]] double compute_seconds() const;
    [[nodiscard]] double seconds() const;
    // What a window costs once, however long it is: the update and the synchronisation.
    [[nodiscard]] double fixed_seconds() const;
    [[nodiscard]] double tokens_per_second() const { return seconds() > 0 ? tokens / seconds() : 0; }
};

// What the machine could do at best, with the threads in use.
struct Ceilings {
    double flops = 0;  // multiply-adds a second, each counted as two
    double bytes = 0;  // of memory, a second
};

// Computing, divided by what holds it back. A part's operations and its bytes, each at its ceiling, are two floors of its
// time. As long as it takes a small multiple of the higher one it is held back by that; what is beyond, and what is in no
// kernel, is overhead: calls that are too small to be worth waking threads, packing and filling registers for.
struct ComputeSplit {
    double arithmetic_seconds = 0;
    double streaming_seconds = 0;
    double overhead_seconds = 0;
};
// `work` is that of the window whose times these are.
[[nodiscard]] ComputeSplit split_compute(const WindowTimes& times, const WorkByPart& work, const Ceilings& ceilings);

enum class Bound { compute, memory_bandwidth, overhead, memory_capacity, data, network };
// As a key: "memory_capacity".
[[nodiscard]] std::string_view name_of(Bound bound);

// What a run is bound by, and the share of a window's time that this takes.
struct Judgement {
    Bound bound = Bound::compute;
    double share = 0;
};

// `lost_to_memory` is the share of computing that a plan without a limit on memory would save.
[[nodiscard]] Judgement judge(const WindowTimes& times, const ComputeSplit& split, double lost_to_memory);

// A change of a run, as factors: 1 = as it is.
struct ChangeFactors {
    double compute = 1;  // the seconds that a window's computing takes
    double window = 1;   // the window's tokens
};

// The seconds of a window after a change. Batches are loaded while others are computed, so that where data is the bound
// computing faster saves nothing.
[[nodiscard]] double seconds_after(const ChangeFactors& change, const WindowTimes& now, Bound bound);

}  // namespace accrue
