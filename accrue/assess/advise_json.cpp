#include <nlohmann/json.hpp>

#include "accrue/assess/advise.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

Json times_json(const Advice& advice) {
    const WindowTimes& times = advice.times;
    return {{"tokens", times.tokens},
            {"seconds", times.seconds()},
            {"tokens_per_second", times.tokens_per_second()},
            {"compute_seconds", times.compute_seconds()},
            {"arithmetic_seconds", advice.split.arithmetic_seconds},
            {"streaming_seconds", advice.split.streaming_seconds},
            {"overhead_seconds", advice.split.overhead_seconds},
            {"kernel_calls", times.calls},
            {"data_wait_seconds", times.data_wait_seconds},
            {"synchronisation_seconds", times.synchronisation_seconds},
            {"synchronisation_bytes", times.synchronisation_bytes},
            {"fixed_seconds", times.fixed_seconds()},
            {"measured_samples", advice.measured_samples}};
}

Json change_json(const Advice& advice, const Change& change) {
    return {{"change", change.text},
            {"same_result", change.result == Change::Result::same},
            {"planned_peak_bytes", change.peak_bytes},
            {"fits", change.peak_bytes <= advice.budget.bytes},
            {"predicted_tokens_per_second", change.tokens_per_second},
            {"predicted_gain", change.tokens_per_second / advice.times.tokens_per_second() - 1}};
}

Json trial_json(const Advice& advice) {
    if (!advice.trial) {
        return {};
    }
    Json json = change_json(advice, advice.trial->change);
    json["measured_tokens_per_second"] = advice.trial->tokens_per_second;
    json["measured_tokens_per_second_now"] = advice.trial->present_tokens_per_second;
    json["measured_gain"] = advice.trial->measured_gain;
    json["measured_gain_least"] = advice.trial->least_gain;
    json["measured_gain_most"] = advice.trial->most_gain;
    return json;
}

Json noise_json(const WindowFacts& facts) {
    if (!facts.noise) {
        return {};
    }
    return {{"tokens", facts.noise->tokens ? Json(*facts.noise->tokens) : Json()},
            {"steps", facts.noise->steps},
            {"steps_without_signal", facts.noise->below_noise}};
}

Json other_window_json(const OtherWindow& window) {
    return {{"samples", window.samples}, {"tokens", window.tokens}, {"rate", window.rate}, {"beta2", window.beta2}};
}

Json window_json(const Advice& advice) {
    const WindowAdvice& window = advice.window;
    Json json = {{"verdict", name_of(window.sizing)},
                 {"noise_scale", noise_json(advice.window_facts)},
                 {"rate_rule", window.rate_is_linear ? "linear" : "sqrt"},
                 {"rate", window.rate},
                 {"half_life_updates", window.half_life_steps},
                 {"half_life_tokens", window.half_life_tokens},
                 {"half", other_window_json(window.half)},
                 {"twice", other_window_json(window.twice)}};
    if (window.better) {
        json["better"] = other_window_json(*window.better);
        if (advice.window_facts.noise->tokens) {
            json["better"]["time_factor"] = window.better_time;
            json["better"]["tokens_factor"] = window.better_tokens;
            json["better"]["updates_factor"] = window.better_updates;
        }
    }
    if (advice.whole) {
        json["in_one_piece"] = {{"planned_peak_bytes", advice.whole->peak_bytes},
                                {"fits", advice.whole->peak_bytes <= advice.budget.bytes},
                                {advice.whole->is_measured ? "measured_gain" : "predicted_gain", advice.whole->gain}};
    }
    return json;
}

}  // namespace

nlohmann::ordered_json advice_json(const Advice& advice) {
    Json changes = Json::array();
    for (const Change& change : advice.changes) {
        changes.push_back(change_json(advice, change));
    }
    return {{"bound", name_of(advice.judgement.bound)},
            {"share", advice.judgement.share},
            {"times", times_json(advice)},
            {"ceilings",
             {{"flops", advice.ceilings.flops},
              {"bytes_per_second", advice.ceilings.bytes},
              {"reached_flops", advice.reached_flops},
              {"reached_bytes_per_second", advice.reached_bytes}}},
            {"memory",
             {{"planned_peak_bytes", advice.peak_bytes},
              {"budget_bytes", advice.budget.bytes},
              {"lost_to_memory", advice.lost_to_memory}}},
            {"micro_batch_grains", advice.plan.micro_batch_grains},
            {"device", text_of(advice.device)},
            {"threads", advice.threads},
            {"changes", changes},
            {"tried", trial_json(advice)},
            {"window", window_json(advice)}};
}

}  // namespace accrue
