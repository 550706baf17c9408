#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "accrue/observe/progress.h"
#include "accrue/train/inputs.h"
#include "accrue/train/numerics.h"
#include "accrue/train/plan_choice.h"
#include "accrue/train/run_claim.h"
#include "accrue/train/step.h"

namespace accrue {

// How a run ended.
struct TrainSummary {
    enum class End { done, stopped };
    End end = End::done;
    int64_t step = 0;
    int64_t tokens = 0;
    double seconds = 0;  // of training in this process
    std::optional<double> loss_before;
    std::optional<double> loss_after;
    std::optional<double> validation_before;
    std::optional<double> validation_after;
    int64_t grains_of_open_window = 0;  // when stopped inside one
    bool has_shown_text = false;        // of the trained model, where there is a tokenizer
};

class TeamLeader;

// What a caller may decide about a run besides its settings.
struct TrainOptions {
    OtherBits other_bits = OtherBits::refuse;
    MemorySource memory = {};    // nothing: the device's is asked for
    TeamLeader* team = nullptr;  // whose workers compute; nothing: this process does
    // Asked before anything of a step that is done is written; where it throws, nothing more is.
    std::function<void(int64_t step)> before_writing = [](int64_t) {};
};

// Trains within the memory that compute.memory and the memory source leave, from the newest checkpoint of the claimed folder
// that is not damaged, or from the start if there is none at all, to the last step of the schedule or until `stop` is set;
// then everything done is on disk. Nothing is written before every check has passed. At the end some text of the model is
// shown.
[[nodiscard]] TrainSummary train(const RunInputs& inputs, RunClaim& claim, Progress& progress, const StopFlag& stop,
                                 const TrainOptions& options = {});

}  // namespace accrue
