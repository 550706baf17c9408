#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accrue/assess/window_lab.h"
#include "accrue/train/run_folder.h"

namespace accrue {

// One optimizer step of a run, computed again.
struct ReplayedStep {
    std::string weights_before;
    std::vector<std::string> grain_data;              // a checksum of what each grain reads
    std::vector<std::vector<int64_t>> grain_samples;  // their numbers in the training data
    std::string sums;
    GrainLedger ledger;
    StepReport report;
    std::string weights_after;
};

// Some steps of a run one after another, and the names of its parameters.
struct Replay {
    std::vector<std::string> parameters;
    std::vector<ReplayedStep> steps;
};

// Computes the steps after `from` (0 = the start, else one that has a checkpoint) up to `to` again, with the run's own
// settings. Writes nothing. An error says why that cannot be done.
[[nodiscard]] Replay replay(const RunFolder& folder, int64_t from, int64_t to, const ProgramUnderTest& program,
                            const std::function<void(int64_t step)>& before_step);

}  // namespace accrue
