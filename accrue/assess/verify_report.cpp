#include "accrue/assess/verify_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "accrue/train/settings_words.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;
using Outcome = VerifyCase::Outcome;

// Enough digits of a checksum to see at a glance that two are the same.
constexpr size_t kShownDigits = 10;
// Micro-batches whose counts are listed one by one.
constexpr size_t kListed = 4;

const char* name_of(Outcome outcome) {
    switch (outcome) {
        case Outcome::reference:
            return "reference";
        case Outcome::same:
            return "same bits";
        case Outcome::differs:
            return "differs";
        case Outcome::not_promised:
            return "differs, not promised";
        case Outcome::not_tried:
            return "not tried";
    }
    return "";
}

std::string error_text(double error) {
    if (std::isnan(error)) {
        return "not a number";
    }
    return error == 0 ? "0" : fmt::format("{:.2g}", error);
}

std::string tokens_text(const MeanOfMeans& mean) {
    if (mean.even()) {
        return fmt::format("{} each", mean.tokens.front());
    }
    if (mean.tokens.size() <= kListed) {
        return fmt::format("{}", fmt::join(mean.tokens, ", "));
    }
    const auto [least, most] = std::minmax_element(mean.tokens.begin(), mean.tokens.end());
    return fmt::format("{} to {}", *least, *most);
}

std::string kinds_text(const std::vector<SumKindCheck>& kinds) {
    std::string text =
        fmt::format("\n{:<22}{:>14}{:>20}   {}\n", "kind of sums", "bytes of each", "gradient's error", "other cuts");
    for (const SumKindCheck& kind : kinds) {
        const char* promise = kind.kind == SumKind::exact ? "same bits, any order" : "same bits, in order";
        text += fmt::format("{:<22}{:>14}{:>20}   {}\n", word_of(kind.kind), kind.element_bytes,
                            error_text(kind.gradient_error), kind.repeats ? promise : "DIFFER");
    }
    return text;
}

std::string samples_text(const NeighbourCheck& check) {
    return check.changed == 0
               ? fmt::format("\nEach of {} samples, alone and beside others: the same bits.\n", check.samples)
               : fmt::format("\n{} of {} samples CHANGE with the samples beside them.\n", check.changed, check.samples);
}

std::string verdict_text(const VerifyReport& report) {
    if (report.holds()) {
        const auto tried = std::count_if(report.cases.begin(), report.cases.end(), [](const VerifyCase& result) {
            return result.outcome == Outcome::reference || result.outcome == Outcome::same;
        });
        std::string text = fmt::format("\nThe law holds: {} ways to compute this window, the same bits.\n", tried);
        if (report.sums != SumKind::exact) {
            text += fmt::format("{} sums promise it in grain order, in one process; exact ones in any.\n",
                                word_of(report.sums));
        }
        return text;
    }
    std::string text = "\nThe law does NOT hold:\n";
    for (const auto& [what, where] : report.faults) {
        text += fmt::format("- {}\n", what);
        for (const std::string& place : where) {
            text += fmt::format("    {}\n", place);
        }
    }
    return text;
}

Json number_or_null(double value) {
    return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json number_or_null(const std::optional<double>& value) {
    return value ? number_or_null(*value) : Json(nullptr);
}

Json window_json(const VerifyReport& report) {
    return {{"step", report.step},
            {"from_checkpoint", report.from_checkpoint},
            {"samples", report.samples},
            {"grains", report.grains},
            {"grain_samples", report.grain_samples},
            {"tokens", report.tokens},
            {"loss", number_or_null(report.loss)},
            {"gradient_norm", number_or_null(report.gradient_norm)},
            {"skip_reason", report.skip_reason}};
}

Json cases_json(const VerifyReport& report) {
    Json cases = Json::array();
    for (const VerifyCase& result : report.cases) {
        cases.push_back({{"name", result.name},
                         {"outcome", name_of(result.outcome)},
                         {"sums_hash", result.sums},
                         {"state_hash", result.state},
                         {"gradient_error", number_or_null(result.gradient_error)},
                         {"fault", result.note},
                         {"seconds", result.seconds}});
    }
    return cases;
}

}  // namespace

std::string verify_head(const VerifyReport& report) {
    return fmt::format(
        "accrue verify: {}, {} parameters, {}, {} sums\n"
        "device: {}\n"
        "window of step {}, {}: {} samples in {} grains, {} tokens count\n\n"
        "{:<44}{:<12}{:<12}{:>8}\n",
        report.model, report.parameters, word_of(report.dtype), word_of(report.sums), report.device, report.step,
        report.from_checkpoint ? "weights of the checkpoint" : "first weights", report.samples, report.grains,
        report.tokens, "computed", "sums", "weights", "seconds");
}

std::string verify_line(const VerifyCase& result) {
    if (result.outcome == Outcome::not_tried) {
        return fmt::format("{:<44}{:<24}{:>8}", result.name, "not tried", "-");
    }
    std::string sums = "same bits";
    std::string state = "same bits";
    if (result.outcome == Outcome::reference) {
        sums = result.sums.substr(0, kShownDigits);
        state = result.state.substr(0, kShownDigits);
    } else if (result.gradient_error) {
        sums = fmt::format("{} {}", result.outcome == Outcome::differs ? "DIFFER" : "off by",
                           error_text(*result.gradient_error));
        state = "";
    } else if (result.outcome == Outcome::differs) {
        sums = result.note.empty() ? result.sums.substr(0, kShownDigits) : sums;
        state = "DIFFER";
    }
    return state.empty() ? fmt::format("{:<44}{:<24}{:>8.2f}", result.name, sums, result.seconds)
                         : fmt::format("{:<44}{:<12}{:<12}{:>8.2f}", result.name, sums, state, result.seconds);
}

std::string means_text(const std::vector<MeanOfMeans>& means) {
    if (means.empty()) {
        return "";
    }
    std::string text = fmt::format("\n{:<22}{:<24}{:>16}{:>14}\n", "a mean of means", "tokens they count",
                                   "gradient's error", "loss's error");
    for (const MeanOfMeans& mean : means) {
        text += fmt::format("{:<22}{:<24}{:>16}{:>14}\n", fmt::format("of {} micro-batches", mean.tokens.size()),
                            tokens_text(mean), error_text(mean.gradient_error), error_text(mean.loss_error));
    }
    return text + "Averaging micro-batches is right only where all of them count the same.\n";
}

std::string verify_tail(const VerifyReport& report) {
    std::string text = kinds_text(report.kinds) + means_text(report.means) + samples_text(report.neighbours);
    if (!report.skip_reason.empty()) {
        text += fmt::format("This window changes no weights: {}.\n", report.skip_reason);
    }
    return text + verdict_text(report);
}

Json to_json(const VerifyReport& report) {
    Json kinds = Json::array();
    for (const SumKindCheck& kind : report.kinds) {
        kinds.push_back({{"kind", word_of(kind.kind)},
                         {"element_bytes", kind.element_bytes},
                         {"gradient_error", number_or_null(kind.gradient_error)},
                         {"repeats", kind.repeats},
                         {"seconds", kind.seconds}});
    }
    Json means = Json::array();
    for (const MeanOfMeans& mean : report.means) {
        means.push_back({{"micro_batches", mean.tokens.size()},
                         {"tokens", mean.tokens},
                         {"loss", number_or_null(mean.loss)},
                         {"loss_error", number_or_null(mean.loss_error)},
                         {"gradient_error", number_or_null(mean.gradient_error)}});
    }
    Json faults = Json::array();
    for (const auto& [what, where] : report.faults) {
        faults.push_back({{"what", what}, {"where", where}});
    }
    return {{"law_holds", report.holds()},
            {"model", report.model},
            {"parameters", report.parameters},
            {"device", report.device},
            {"dtype", word_of(report.dtype)},
            {"sums", word_of(report.sums)},
            {"window", window_json(report)},
            {"cases", cases_json(report)},
            {"kinds_of_sums", kinds},
            {"mean_of_means", means},
            {"neighbours", {{"samples", report.neighbours.samples}, {"changed", report.neighbours.changed}}},
            {"faults", faults},
            {"seconds", report.seconds}};
}

}  // namespace accrue
