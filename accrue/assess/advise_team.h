#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "accrue/assess/advise.h"
#include "accrue/assess/team_request.h"
#include "accrue/dist/exchange_cost.h"

namespace accrue {

// What an advice about several workers rests on: one process, as it was measured, and what an exchange costs.
struct TeamBasis {
    TeamRequest request;
    std::function<ExchangeCost(int64_t workers)> exchange_of = {};
    int64_t window_grains = 0;
    double grain_tokens = 0;   // counted ones
    double grain_seconds = 0;  // computed, and waited for its data
    double update_seconds = 0;
    int64_t micro_batch_grains = 1;
    int64_t threads = 1;  // of a machine
};

// A window of several workers.
struct TeamTimes {
    double compute_seconds = 0;  // until all grains are computed
    double update_seconds = 0;
    double exchange_seconds = 0;

    [[nodiscard]] double seconds() const { return compute_seconds + update_seconds + exchange_seconds; }
    [[nodiscard]] double exchange_share() const { return exchange_seconds / seconds(); }
};
// With a network between them, each machine computes its grains by itself and all update at the same time. Processes of one
// machine share out what it has: each of their updates takes some of it.
[[nodiscard]] TeamTimes times_of_team(const TeamBasis& facts, int64_t workers, int64_t window_grains);

// Accumulating more before sums are exchanged: a larger window.
struct TeamRow {
    int64_t grains = 0;         // of a window
    int64_t micro_batches = 0;  // of a worker
    double exchanges = 0;       // for a million tokens
    TeamTimes times;
    double tokens_per_second = 0;
};

// What workers took when they really ran.
struct MeasuredTeam {
    int64_t windows = 0;          // that were measured; 0 = none was
    double seconds = 0;           // of a window, the median
    double exchange_seconds = 0;  // of it
    double exchange_bytes = 0;    // sent by all
    std::string fault = {};       // why they did not run; "" = they did
};

struct TeamMeasurements {
    MeasuredTeam here;         // processes of this machine
    MeasuredTeam in_run = {};  // as many, wherever they were, in the run that was given
};

struct TeamAdvice {
    TeamBasis facts;
    ExchangeCost exchange;
    TeamTimes times;                // of the present window
    double gain = 1;                // of tokens/s, over one worker alone: 2 = twice as many
    bool is_gain_measured = false;  // else predicted
    Judgement judgement;            // what the team is bound by
    int64_t best_workers = 1;       // for the present window
    int64_t enough_workers = 1;     // the fewest that are as fast as those that were asked about
    std::optional<int64_t>
        calm_grains;            // the smallest window whose exchange takes less than a tenth; nothing if none does
    std::vector<TeamRow> rows;  // by grains; the present window is among them
    TeamTimes here;  // of the present window by processes of this machine: what was measured here is set against it
    TeamMeasurements measured;
};

// From what was measured of one worker: `alone` is the advice for its settings.
[[nodiscard]] TeamAdvice find_team_advice(const RunInputs& inputs, const Advice& alone, const TeamRequest& request,
                                          const TeamMeasurements& measured);

// For people: the answer first.
[[nodiscard]] std::string team_advice_text(const TeamAdvice& advice);
// For programs.
[[nodiscard]] nlohmann::ordered_json team_advice_json(const TeamAdvice& advice);

}  // namespace accrue
