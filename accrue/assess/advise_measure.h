#pragma once

#include <functional>
#include <vector>

#include "accrue/assess/advise_bottleneck.h"
#include "accrue/base/pool.h"
#include "accrue/train/inputs.h"
#include "accrue/train/loader.h"
#include "accrue/train/planner.h"

namespace accrue {

// Adds up the sums of all workers and says how many bytes that sent and received.
using Synchronise = std::function<int64_t()>;

// Where the grains of a measured run come from, and who else takes part in it.
struct MeasuredWorld {
    const BatchSource* data = nullptr;  // none = the run's own
    Synchronise synchronise = {};       // none = one worker
};

// One way to run windows.
struct MeasuredWay {
    enum class Batches { loaded, held };  // held: each batch is loaded once and then there, as by a loader without cost

    Plan plan;
    int64_t samples = 1;        // of the windows that run
    double window_samples = 1;  // of the window that they stand for
    Batches batches = Batches::loaded;
};

// What was measured of one way.
struct MeasuredTimes {
    WindowTimes fastest;                    // of all windows, because whatever else runs here can only slow them down
    std::vector<double> tokens_per_second;  // of the fastest window of each turn
};

// Runs real windows of a run in these ways, in turns, so that whatever else the machine does meets all of them alike.
// Takes some seconds for each way and the memory of the largest plan.
[[nodiscard]] std::vector<MeasuredTimes> measure_ways(const RunInputs& inputs, Pool& pool,
                                                      const std::vector<MeasuredWay>& ways, const MeasuredWorld& world);

// What an adviser measures with: a machine, or a test that plants what a machine would say. `room` are the bytes that may be
// taken meanwhile.
struct Instruments {
    std::function<Rates(const RunInputs& inputs, Pool& pool, int64_t room)> rates;
    std::function<std::vector<MeasuredTimes>(const RunInputs& inputs, Pool& pool, const std::vector<MeasuredWay>& ways)>
        windows;
    // A bandwidth of 0 where there is no room to measure it.
    std::function<Ceilings(const RunInputs& inputs, Pool& pool, int64_t room)> ceilings;
};
// This machine's.
[[nodiscard]] Instruments real_instruments();

}  // namespace accrue
