#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "accrue/assess/advise_bottleneck.h"
#include "accrue/assess/advise_measure.h"
#include "accrue/assess/advise_window.h"
#include "accrue/train/plan_choice.h"

namespace accrue {

// What `accrue advise` is asked.
struct AdviseRequest {
    std::optional<NoiseScale> noise = {};  // of a run that was given
    Instruments instruments = real_instruments();
    int processors = 0;  // that a run could use; 0 = all that this process may
};

// Something that could be changed, and what would come of it.
struct Change {
    enum class Result { same, another };  // bit for bit; another = what the run learns changes too

    std::string text = {};  // "window.micro_batch_grains = 2"
    Result result = Result::same;
    Plan plan = {};
    int threads = 1;
    double window_factor = 1;
    MeasuredWay::Batches batches = MeasuredWay::Batches::loaded;
    bool raises_memory = false;    // needs more than compute.memory allows
    int64_t peak_bytes = 0;        // of the process
    double tokens_per_second = 0;  // predicted from what was measured now
};

// The most promising change, really run, in turns with the present settings.
struct Trial {
    Change change;
    double predicted_gain = 0;  // of tokens/s: 0.1 = a tenth more
    double measured_gain = 0;   // the median of the turns
    double least_gain = 0;      // of a turn
    double most_gain = 0;
    double tokens_per_second = 0;          // at best
    double present_tokens_per_second = 0;  // in the same way
};

// A window in one piece, without accumulation.
struct WholeWindow {
    int64_t peak_bytes = 0;    // of the process
    double gain = 0;           // of tokens/s
    bool is_measured = false;  // else predicted
};

// Everything `accrue advise` says.
struct Advice {
    Judgement judgement;
    WindowTimes times;
    ComputeSplit split;
    DeviceName device;
    Ceilings ceilings;
    double reached_flops = 0;      // a second of computing
    double reached_bytes = 0;      // a second of computing
    int64_t measured_samples = 0;  // of the windows that ran
    double window_samples = 0;
    bool window_in_tokens = false;  // window.tokens says how large it is, not window.samples

    Plan plan;
    int threads = 1;
    double window_grains = 1;
    int64_t peak_bytes = 0;
    MemoryBound budget;
    double lost_to_memory = 0;  // share of computing

    std::vector<Change> changes;
    std::optional<Trial> trial;
    std::optional<WholeWindow> whole;  // none = the window is one micro-batch already
    WindowFacts window_facts;
    WindowAdvice window;
    Settings::Optimizer optimizer;
};

// Measures and judges. Errors as those of a run: no plan fits, no data.
[[nodiscard]] Advice find_advice(const RunInputs& inputs, const MemoryBound& machine, const AdviseRequest& request);

// For programs. Sizes in bytes, times in seconds.
[[nodiscard]] nlohmann::ordered_json advice_json(const Advice& advice);
// For people: the answer first.
[[nodiscard]] std::string advice_text(const Advice& advice);

}  // namespace accrue
