#include "accrue/assess/verify_workers.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace accrue {
namespace {

// Enough digits to see at a glance that two are the same.
constexpr size_t kDigitsOfALine = 16;

std::string_view word_of(ProcessesWay::Outcome outcome) {
    switch (outcome) {
        case ProcessesWay::Outcome::reference:
            return "reference";
        case ProcessesWay::Outcome::same:
            return "same bits";
        case ProcessesWay::Outcome::differs:
            return "differs";
        case ProcessesWay::Outcome::not_tried:
            return "not tried";
    }
    return "";
}

bool is_any(const ProcessesReport& report, ProcessesWay::Outcome outcome) {
    return std::ranges::any_of(report.ways, [=](const ProcessesWay& way) { return way.outcome == outcome; });
}

}  // namespace

void ProcessesReport::add(ProcessesWay way) {
    using enum ProcessesWay::Outcome;
    if (way.outcome != not_tried) {
        way.outcome = ways.empty() ? reference : way.sha256 == ways.front().sha256 ? same : differs;
    }
    ways.push_back(std::move(way));
}

bool ProcessesReport::holds() const {
    return !is_any(*this, ProcessesWay::Outcome::differs) && !is_any(*this, ProcessesWay::Outcome::not_tried);
}

std::string processes_head(const ProcessesReport& report) {
    return fmt::format(
        "accrue verify: {}, {} parameters, by up to {} worker processes\n"
        "{} window(s) of {} grain(s) each, from {}\n\n"
        "{:<44}{:>8}   {}\n",
        report.model, report.parameters, report.workers, report.windows, report.grains,
        report.from_step > 0 ? fmt::format("the checkpoint of step {}", report.from_step) : "the first weights",
        "computed by", "seconds", "SHA-256 of the weights");
}

std::string processes_line(const ProcessesWay& way) {
    const std::string sha = way.outcome == ProcessesWay::Outcome::not_tried
                                ? "not tried"
                                : fmt::format("{}...", way.sha256.substr(0, kDigitsOfALine));
    return fmt::format("{:<44}{:>8.1f}   {}", way.name, way.seconds, sha);
}

std::string processes_tail(const ProcessesReport& report) {
    if (is_any(report, ProcessesWay::Outcome::differs)) {
        return "\nThe law does NOT hold over processes: the weights differ. accrue verify without\n"
               "--workers computes one window in many ways and names what differs.\n";
    }
    if (is_any(report, ProcessesWay::Outcome::not_tried)) {
        return fmt::format(
            "\nNo bits differ, but the run was over before a worker could be killed. Let more\n"
            "windows be computed: --windows {}.\n",
            4 * report.windows);
    }
    std::string text;
    for (const ProcessesWay& way : report.ways) {
        if (way.lost_workers > 0) {
            text += fmt::format("\n{} worker(s) killed with SIGKILL: {} grain(s) were computed again.",
                                way.lost_workers, way.grains_recomputed);
        }
    }
    return text + fmt::format("\nThe law holds: {} ways to compute {} window(s), the same file. Its SHA-256 is\n{}\n",
                              report.ways.size(), report.windows, report.ways.front().sha256);
}

nlohmann::ordered_json to_json(const ProcessesReport& report) {
    auto ways = nlohmann::ordered_json::array();
    for (const ProcessesWay& way : report.ways) {
        ways.push_back({{"name", way.name},
                        {"outcome", word_of(way.outcome)},
                        {"weights_sha256", way.sha256},
                        {"seconds", way.seconds},
                        {"workers", way.workers},
                        {"lost_workers", way.lost_workers},
                        {"grains_recomputed", way.grains_recomputed}});
    }
    return {{"law_holds", report.holds()},     {"model", report.model},
            {"parameters", report.parameters}, {"workers", report.workers},
            {"from_step", report.from_step},   {"windows", report.windows},
            {"grains", report.grains},         {"ways", ways}};
}

}  // namespace accrue
