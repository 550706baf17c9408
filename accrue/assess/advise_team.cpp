#include "accrue/assess/advise_team.h"

#include <algorithm>
#include <cmath>

#include "accrue/train/team/state_sharing.h"

namespace accrue {
namespace {

// An exchange that takes less does not matter.
constexpr double kCalmShare = 0.1;
// Nobody asks for more grains a window.
constexpr int64_t kMostGrainsOfAWindow = int64_t{1} << 40;
constexpr int64_t kMostLookedAt = 64;
// Tables show the present window, and others up to so many times as large.
constexpr int64_t kMostTimesTheWindow = 64;

double tokens_per_second(const TeamBasis& facts, int64_t grains, const TeamTimes& times) {
    return static_cast<double>(grains) * facts.grain_tokens / times.seconds();
}

TeamBasis basis_of(const RunInputs& inputs, const Advice& alone, const TeamRequest& request) {
    const WindowTimes& times = alone.times;
    const auto grains = std::max(1.0, alone.window_grains);
    const double update = times.fixed_seconds();
    return {.request = request,
            .exchange_of = [settings = inputs.settings,
                            model = inputs.model](int64_t workers) { return exchange_of(settings, *model, workers); },
            .window_grains = static_cast<int64_t>(grains),
            .grain_tokens = times.tokens / grains,
            .grain_seconds = (times.seconds() - update) / grains,
            .update_seconds = update,
            .micro_batch_grains = alone.plan.micro_batch_grains,
            .threads = threads_of(inputs.settings)};
}

// The clock of one of the workers: its part of the window's computing, all of its update, the exchange.
Judgement judge_team(const Advice& alone, const TeamTimes& team) {
    const WindowTimes& now = alone.times;
    const double part = team.compute_seconds / std::max(now.seconds() - now.fixed_seconds(), 1e-12);
    const double updates = team.update_seconds / std::max(now.fixed_seconds(), 1e-12);
    WindowTimes times = now;
    for (size_t kind = 0; kind < times.kernels.size(); ++kind) {
        times.kernels[kind] *= static_cast<Part>(kind) == Part::optimizer ? updates : part;
    }
    times.ordering_seconds *= part;
    times.data_wait_seconds *= part;
    times.synchronisation_seconds = team.exchange_seconds;
    const double scale = times.compute_seconds() / std::max(now.compute_seconds(), 1e-12);
    const ComputeSplit split{.arithmetic_seconds = scale * alone.split.arithmetic_seconds,
                             .streaming_seconds = scale * alone.split.streaming_seconds,
                             .overhead_seconds = scale * alone.split.overhead_seconds};
    return judge(times, split, alone.lost_to_memory);
}

bool is_calm(const TeamBasis& facts, int64_t grains) {
    return times_of_team(facts, facts.request.workers, grains).exchange_share() < kCalmShare;
}

// Windows only become calmer when they grow, by whole rounds of the workers.
std::optional<int64_t> calm_grains(const TeamBasis& facts) {
    const int64_t round = facts.request.workers;
    int64_t too_few = 0;
    int64_t enough = 1;  // both in rounds
    while (!is_calm(facts, enough * round)) {
        too_few = enough;
        enough *= 2;
        if (enough * round > kMostGrainsOfAWindow) {
            return std::nullopt;
        }
    }
    while (enough - too_few > 1) {
        const int64_t middle = too_few + (enough - too_few) / 2;
        (is_calm(facts, middle * round) ? enough : too_few) = middle;
    }
    return enough * round;
}

// The fewest that are as fast as any of up to so many, but for a hundredth.
int64_t fewest_of_the_fastest(const TeamBasis& facts, int64_t most) {
    const auto seconds = [&](int64_t workers) { return times_of_team(facts, workers, facts.window_grains).seconds(); };
    double least = seconds(1);
    for (int64_t workers = 2; workers <= most; ++workers) {
        least = std::min(least, seconds(workers));
    }
    int64_t workers = 1;
    while (seconds(workers) > 1.01 * least) {
        ++workers;
    }
    return workers;
}

TeamRow row_of(const TeamBasis& facts, int64_t grains) {
    const auto each = static_cast<int64_t>(grains_of_each(static_cast<double>(grains), facts.request.workers));
    TeamRow row{.grains = grains,
                .micro_batches = (each + facts.micro_batch_grains - 1) / facts.micro_batch_grains,
                .exchanges = 1e6 / (static_cast<double>(grains) * facts.grain_tokens),
                .times = times_of_team(facts, facts.request.workers, grains)};
    row.tokens_per_second = tokens_per_second(facts, grains, row.times);
    return row;
}

std::vector<TeamRow> rows_of(const TeamBasis& facts) {
    std::vector<TeamRow> rows;
    for (int64_t factor = 4; factor >= 2; factor /= 2) {
        if (facts.window_grains / factor >= facts.request.workers) {
            rows.push_back(row_of(facts, facts.window_grains / factor));
        }
    }
    for (int64_t factor = 1; factor <= kMostTimesTheWindow; factor *= 2) {
        rows.push_back(row_of(facts, facts.window_grains * factor));
        if (factor > 1 && rows.back().times.exchange_share() < kCalmShare) {
            break;  // more hardly matters
        }
    }
    return rows;
}

}  // namespace

TeamTimes times_of_team(const TeamBasis& facts, int64_t workers, int64_t window_grains) {
    const double each = grains_of_each(static_cast<double>(window_grains), workers);
    const double sharing = facts.request.link ? 1 : static_cast<double>(workers);
    return {.compute_seconds = sharing * each * facts.grain_seconds,
            .update_seconds = sharing * facts.update_seconds,
            .exchange_seconds = exchange_seconds_of(facts.request, facts.exchange_of(workers), facts.threads)};
}

TeamAdvice find_team_advice(const RunInputs& inputs, const Advice& alone, const TeamRequest& request,
                            const TeamMeasurements& measured) {
    TeamAdvice advice;
    advice.facts = basis_of(inputs, alone, request);
    advice.measured = measured;
    const TeamBasis& facts = advice.facts;
    advice.exchange = facts.exchange_of(request.workers);
    advice.times = times_of_team(facts, request.workers, facts.window_grains);
    advice.gain = times_of_team(facts, 1, facts.window_grains).seconds() / advice.times.seconds();
    // Of processes of this machine it is known.
    if (!request.link && measured.here.windows > 0) {
        advice.gain = alone.times.seconds() / measured.here.seconds;
        advice.is_gain_measured = true;
    }
    advice.judgement = judge_team(alone, advice.times);
    advice.best_workers = fewest_of_the_fastest(facts, kMostLookedAt);
    advice.enough_workers = fewest_of_the_fastest(facts, request.workers);
    advice.calm_grains = calm_grains(facts);
    advice.rows = rows_of(facts);
    TeamBasis here = facts;
    here.request.link.reset();
    advice.here = times_of_team(here, request.workers, facts.window_grains);
    return advice;
}

}  // namespace accrue
