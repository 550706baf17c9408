#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "accrue/assess/advise_team.h"
#include "accrue/assess/text_layout.h"
#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/base/link_speed.h"

namespace accrue {
namespace {

// A worker that makes a window less faster than that is not worth having for its speed.
constexpr double kWorthAWorker = 1.1;

std::string team_name(const TeamAdvice& advice) {
    const TeamRequest& request = advice.facts.request;
    return request.link ? fmt::format("{} machines with links of {}", request.workers, format_link_speed(*request.link))
                        : fmt::format("{} workers on this machine", request.workers);
}

std::string_view what_binds(Bound bound) {
    switch (bound) {
        case Bound::network:
            return "the network";
        case Bound::memory_capacity:
            return "memory capacity";
        case Bound::memory_bandwidth:
            return "memory bandwidth";
        case Bound::data:
            return "data";
        case Bound::overhead:
            return "overhead";
        case Bound::compute:
            return "compute";
    }
    return "";
}

std::string what_takes(Bound bound) {
    switch (bound) {
        case Bound::network:
            return "the exchange of sums takes";
        case Bound::memory_capacity:
            return "computing again for want of memory takes";
        case Bound::memory_bandwidth:
            return "passes over memory take";
        case Bound::data:
            return "waiting for the loader takes";
        case Bound::overhead:
            return "neither arithmetic nor memory explains";
        case Bound::compute:
            return "arithmetic takes";
    }
    return "";
}

std::string team_head(const TeamAdvice& advice) {
    const Bound bound = advice.judgement.bound;
    return fmt::format("{}: bound by {}: {} {} of the time.", team_name(advice), what_binds(bound), what_takes(bound),
                       percent(advice.judgement.share));
}

// What they are worth, and when none should be added.
std::string worth_text(const TeamAdvice& advice) {
    const TeamBasis& facts = advice.facts;
    const std::string gain = fmt::format("{:.2f} times as fast as {} ({})", advice.gain,
                                         facts.request.link ? "one of them alone" : "one process with all threads",
                                         advice.is_gain_measured ? "measured" : "predicted");
    if (advice.gain >= kWorthAWorker) {
        std::string text = fmt::format("Together they are {}.", gain);
        if (advice.enough_workers < facts.request.workers && facts.request.link) {
            text +=
                fmt::format(" For windows of {} grains {} are as fast.", facts.window_grains, advice.enough_workers);
        }
        return text;
    }
    if (!facts.request.link) {
        return fmt::format(
            "Do not add workers here to be faster: they share the processors that one process uses as well, and are "
            "{}. "
            "They are for a run that is to go on when one is killed.",
            gain);
    }
    return fmt::format("Do not add workers for windows of {} grains: together they are {}.{}", facts.window_grains,
                       gain,
                       advice.best_workers > 1 ? fmt::format(" The best number would be {}.", advice.best_workers)
                                               : " One alone is best.");
}

std::string calm_text(const TeamAdvice& advice) {
    if (!advice.calm_grains) {
        return "No window is so large that the exchange would take less than a tenth of the time.";
    }
    const int64_t grains = *advice.calm_grains;
    if (grains <= advice.facts.window_grains) {
        return fmt::format(
            "The exchange takes less than a tenth of the time with windows of {} grains and more: yours has {}.",
            grains, advice.facts.window_grains);
    }
    return fmt::format(
        "The exchange takes less than a tenth of the time from windows of {} grains on ({} tokens); yours has {}. A "
        "larger "
        "window changes the result: see the learning rate below.",
        grains, count_text(static_cast<double>(grains) * advice.facts.grain_tokens), advice.facts.window_grains);
}

// Neither 1.95e+03 nor 15.
std::string three_digits(double value) {
    return value < 100 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

std::string rows_text(const TeamAdvice& advice) {
    std::string text = "accumulating more before sums are exchanged (predicted)\n";
    text += fmt::format("  {:>10}{:>14}{:>12}{:>12}{:>11}{:>9}{:>9}\n", "grains of", "micro-batches", "exchanges",
                        "seconds", "exchange", "share", "tokens/s");
    text += fmt::format("  {:>10}{:>14}{:>12}{:>12}{:>11}{:>9}{:>9}\n", "a window", "of a worker", "a M tokens",
                        "a window", "seconds", "of it", "");
    for (const TeamRow& row : advice.rows) {
        text += fmt::format(
            "{} {:>10}{:>14}{:>12}{:>12}{:>11}{:>9}{:>9.0f}\n", row.grains == advice.facts.window_grains ? '>' : ' ',
            row.grains, row.micro_batches, three_digits(row.exchanges), three_digits(row.times.seconds()),
            three_digits(row.times.exchange_seconds), percent(row.times.exchange_share()), row.tokens_per_second);
    }
    return text;
}

std::string measured_row(std::string_view name, const std::string& predicted, const std::string& measured) {
    return fmt::format("  {:<34}{:>14}{:>14}\n", name, predicted, measured);
}

std::string measured_table(const TeamAdvice& advice, std::string_view where, const TeamTimes& predicted,
                           const MeasuredTeam& measured) {
    const auto bytes = [](double value) { return format_bytes(static_cast<int64_t>(value)); };
    const double tokens = static_cast<double>(advice.facts.window_grains) * advice.facts.grain_tokens;
    return measured_row(fmt::format("{} workers {}, {} windows", advice.facts.request.workers, where, measured.windows),
                        "predicted", "measured") +
           measured_row("sent by all, a window", bytes(static_cast<double>(advice.exchange.all_sent_bytes)),
                        bytes(measured.exchange_bytes)) +
           measured_row("seconds computing and updating",
                        three_digits(predicted.compute_seconds + predicted.update_seconds),
                        three_digits(measured.seconds - measured.exchange_seconds)) +
           measured_row("seconds for the exchange", three_digits(predicted.exchange_seconds),
                        three_digits(measured.exchange_seconds)) +
           measured_row("seconds of a window", three_digits(predicted.seconds()), three_digits(measured.seconds)) +
           measured_row("tokens/s", fmt::format("{:.0f}", tokens / predicted.seconds()),
                        fmt::format("{:.0f}", tokens / measured.seconds));
}

std::string measured_text(const TeamAdvice& advice) {
    const auto& [here, in_run] = advice.measured;
    std::string text;
    if (!here.fault.empty()) {
        text = wrapped(
            cat("not measured: ", advice.facts.request.workers, " workers do not run on this machine: ", here.fault),
            2);
    } else if (here.windows > 0) {
        text = measured_table(advice, "here", advice.here, here);
    }
    if (in_run.windows > 0) {
        text += cat("\n", measured_table(advice, "in that run", advice.times, in_run));
    }
    return text;
}

}  // namespace

std::string team_advice_text(const TeamAdvice& advice) {
    const ExchangeCost& cost = advice.exchange;
    return wrapped(team_head(advice), 0) + wrapped(worth_text(advice), 0) + wrapped(calm_text(advice), 0) + "\n" +
           wrapped(fmt::format("once a window each worker sends {} ({} all of them) and keeps {} of memory for it",
                               format_bytes(cost.sent_bytes), format_bytes(cost.all_sent_bytes),
                               format_bytes(cost.held_bytes)),
                   0) +
           "\n" + rows_text(advice) + "\n" + measured_text(advice) +
           (advice.facts.request.link ? "\none of them alone\n" : "\none process alone\n");
}

nlohmann::ordered_json team_advice_json(const TeamAdvice& advice) {
    using Json = nlohmann::ordered_json;
    const auto times_json = [](const TeamTimes& times) -> Json {
        return {{"compute_seconds", times.compute_seconds},
                {"update_seconds", times.update_seconds},
                {"exchange_seconds", times.exchange_seconds},
                {"window_seconds", times.seconds()},
                {"exchange_share", times.exchange_share()}};
    };
    Json rows = Json::array();
    for (const TeamRow& row : advice.rows) {
        Json json = times_json(row.times);
        json["grains"] = row.grains;
        json["accumulation_steps"] = row.micro_batches;
        json["synchronisations_a_million_tokens"] = row.exchanges;
        json["tokens_per_second"] = row.tokens_per_second;
        rows.push_back(std::move(json));
    }
    const auto measured_json = [](const MeasuredTeam& measured) -> Json {
        if (measured.windows == 0) {
            return {};
        }
        return {{"windows", measured.windows},
                {"window_seconds", measured.seconds},
                {"exchange_seconds", measured.exchange_seconds},
                {"exchange_sent_bytes_of_all", measured.exchange_bytes}};
    };
    return {{"workers", advice.facts.request.workers},
            {"link_bits_per_second", advice.facts.request.link ? Json(*advice.facts.request.link) : Json()},
            {"bound", name_of(advice.judgement.bound)},
            {"share", advice.judgement.share},
            {advice.is_gain_measured ? "measured_gain" : "predicted_gain", advice.gain},
            {"best_workers", advice.best_workers},
            {"enough_workers", advice.enough_workers},
            {"window_grains", advice.facts.window_grains},
            {"grains_for_a_tenth", advice.calm_grains ? Json(*advice.calm_grains) : Json()},
            {"exchange_sent_bytes", advice.exchange.sent_bytes},
            {"exchange_sent_bytes_of_all", advice.exchange.all_sent_bytes},
            {"exchange_held_bytes", advice.exchange.held_bytes},
            {"predicted", times_json(advice.times)},
            {"predicted_on_this_machine", times_json(advice.here)},
            {"measured_on_this_machine", measured_json(advice.measured.here)},
            {"measured_in_run", measured_json(advice.measured.in_run)},
            {"accumulation", rows}};
}

}  // namespace accrue
