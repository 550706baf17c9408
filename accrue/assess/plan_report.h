#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "accrue/assess/team_request.h"
#include "accrue/base/pool.h"
#include "accrue/dist/exchange_cost.h"
#include "accrue/train/inputs.h"
#include "accrue/train/plan_choice.h"

namespace accrue {

// What `accrue plan` is asked.
struct PlanRequest {
    std::optional<double> price_per_hour = {};
    bool measures = false;  // run real micro-batches too
    bool typical = false;   // take the speed of an ordinary processor instead of measuring a layer
    // What the machine can give of its memory to the state of a GPU (compute.host_state); nothing = it is not this machine.
    std::optional<MemoryBound> host = {};
    std::optional<TeamRequest> team = {};  // nothing = one process computes
};

// What several workers add to a plan. All else that is said then is of one of them, and of windows that all compute together.
struct TeamPlan {
    TeamRequest request;
    TeamShare share;
    ExchangeCost exchange;               // once a window
    int64_t planned_exchange_bytes = 0;  // that it takes of the memory that is planned for
    double exchange_seconds = 0;
    double alone_seconds = 0;  // of a window, if one of them computed it by the shown plan, predicted
};

// A plan with what it means for a process and a clock.
struct PlanRow {
    Plan plan;
    int64_t peak_bytes = 0;  // of the process
    double seconds = 0;      // of a window, predicted; of workers with their exchange
    std::optional<double> measured_seconds = {};
};

// Everything `accrue plan` says.
struct PlanFindings {
    std::string title;  // model and numbers
    HostState host_state = HostState::none;
    std::string window;  // in words
    std::string epoch;   // which windows the data makes; "" = not known
    MemoryFacts machine;
    DeviceName device;
    std::string gpu;  // "cuda, NVIDIA H200"; "" = none, or none that is here
    MemoryBound budget;
    ProcessBase base;
    double window_grains = 0;
    double process_grains = 0;  // of them, those that one process computes: all, or a worker's
    int64_t window_tokens = 0;
    int64_t steps = 0;
    std::optional<TeamPlan> team;
    std::vector<PlanRow> frontier;  // fastest first
    std::optional<size_t> chosen;   // none = nothing fits, and `refusal` says why
    std::string refusal;
    std::vector<PlanRow> cuts;  // the chosen plan (or the smallest) with other micro-batches
    std::optional<double> price_per_hour;
};

// The fastest plan that fits is chosen in the same way as by a run.
[[nodiscard]] PlanFindings find_plans(const RunInputs& inputs, const MemoryBound& machine, const PlanRequest& request);

// Micro-batches of a window, of one process.
[[nodiscard]] int64_t accumulation_steps(const PlanFindings& findings, const PlanRow& row);
// What an exchange of sums takes of a worker's memory.
[[nodiscard]] int64_t exchange_bytes(const PlanFindings& findings);
// The chosen plan, or the smallest where none fits.
[[nodiscard]] const PlanRow& shown_row(const PlanFindings& findings);

// For programs. Sizes in bytes, times in seconds.
[[nodiscard]] nlohmann::ordered_json plan_json(const PlanFindings& findings);
// For people.
[[nodiscard]] std::string plan_text(const PlanFindings& findings);

}  // namespace accrue
