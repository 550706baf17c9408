#include "accrue/assess/compare_runs.h"

#include <algorithm>
#include <array>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "accrue/assess/explain_parting.h"
#include "accrue/base/error.h"
#include "accrue/observe/metric_table.h"
#include "accrue/train/settings_table.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

// Settings that the law leaves free; all others are part of what the weights depend on.
constexpr std::array<std::string_view, 9> kFreeSettings = {
    "data.validation", "window.micro_batch_grains", "compute.threads",      "compute.memory",    "compute.recompute",
    "run.folder",      "run.checkpoint_steps",      "run.keep_checkpoints", "run.evaluate_steps"};

bool contains(const auto& list, std::string_view key) {
    return std::find(list.begin(), list.end(), key) != list.end();
}

void require_run(const RunFolder& folder) {
    for (const auto& file : {folder.settings(), folder.metrics()}) {
        if (!std::filesystem::is_regular_file(file)) {
            throw Error(cat(folder.root.string(), " holds no ", file.filename().string(),
                            ", so it is no run to compare. Give two folders that accrue train wrote."));
        }
    }
}

void compare_settings(const RunFolder& first, const RunFolder& second, RunComparison& comparison) {
    const Settings a = read_settings(first.settings(), {});
    const Settings b = read_settings(second.settings(), {});
    for (const Setting& setting : settings_table()) {
        ValueDifference difference{setting.key(), setting.value_text(a), setting.value_text(b)};
        if (difference.first != difference.second) {
            (contains(kFreeSettings, difference.key) ? comparison.free : comparison.definition)
                .push_back(std::move(difference));
        }
    }
}

// The steps of a metrics file one after another; lines that are no whole step are left out.
class MetricsReader {
public:
    explicit MetricsReader(const std::filesystem::path& file) : input_(file) { next(); }
    [[nodiscard]] const std::optional<Json>& line() const { return line_; }
    [[nodiscard]] int64_t step() const { return line_->at(Metrics::kStep.name).get<int64_t>(); }
    [[nodiscard]] int64_t lines() const { return lines_; }
    void next() {
        line_.reset();
        for (std::string text; !line_ && std::getline(input_, text);) {
            Json json = Json::parse(text, nullptr, false);
            if (json.is_object() && json.contains(Metrics::kStep.name) &&
                json[Metrics::kStep.name].is_number_integer()) {
                line_ = std::move(json);
                ++lines_;
            }
        }
    }

private:
    std::ifstream input_;
    std::optional<Json> line_;
    int64_t lines_ = 0;
};

// Metrics that no cut, machine or clock may change.
bool is_of_definition(std::string_view key) {
    const auto* const metric = std::find_if(Metrics::kAll.begin(), Metrics::kAll.end(),
                                            [&](const Metric& known) { return known.name == key; });
    return metric == Metrics::kAll.end() || metric->varies == Metric::Varies::never;
}

std::vector<ValueDifference> differences_of(const Json& a, const Json& b) {
    std::vector<ValueDifference> differences;
    for (const auto& [key, value] : a.items()) {
        if (is_of_definition(key) && b.contains(key) && b.at(key) != value) {
            differences.push_back({key, value.dump(), b.at(key).dump()});
        }
    }
    return differences;
}

bool is_hashed(const Json& line) {
    return line.contains(Metrics::kWeightsHash.name);
}

void compare_metrics(const RunFolder& first, const RunFolder& second, RunComparison& comparison) {
    MetricsReader a(first.metrics());
    MetricsReader b(second.metrics());
    while (a.line() && b.line()) {
        if (a.step() != b.step()) {
            (a.step() < b.step() ? a : b).next();
            continue;
        }
        if (!comparison.parting_step) {
            ++comparison.compared_steps;
            comparison.compared_weights += is_hashed(*a.line()) && is_hashed(*b.line());
            comparison.parting_values = differences_of(*a.line(), *b.line());
            if (!comparison.parting_values.empty()) {
                comparison.parting_step = a.step();
            }
        }
        a.next();
        b.next();
    }
    for (MetricsReader* reader : {&a, &b}) {
        while (reader->line()) {
            reader->next();
        }
    }
    comparison.first_steps = a.lines();
    comparison.second_steps = b.lines();
}

std::string table_of(const char* title, const std::vector<ValueDifference>& differences) {
    if (differences.empty()) {
        return "";
    }
    std::string text = fmt::format("{}\n", title);
    for (const auto& [key, first, second] : differences) {
        text += fmt::format("  {:<26} {:<24} {}\n", key, first, second);
    }
    return text;
}

Json json_of(const std::vector<ValueDifference>& differences) {
    Json list = Json::array();
    for (const auto& [key, first, second] : differences) {
        list.push_back({{"key", key}, {"first", first}, {"second", second}});
    }
    return list;
}

}  // namespace

RunComparison compare_runs(const RunFolder& first, const RunFolder& second, const ProgramUnderTest& program,
                           const std::function<void(const std::string& what)>& works) {
    require_run(first);
    require_run(second);
    RunComparison comparison;
    works("settings");
    compare_settings(first, second, comparison);
    works("metrics");
    compare_metrics(first, second, comparison);
    comparison.findings = explain_parting({first, second}, comparison.parting_step, program, works);
    return comparison;
}

std::string to_text(const RunComparison& comparison) {
    std::string text = table_of("Settings that the weights depend on:", comparison.definition);
    text += table_of("Settings that must not matter:", comparison.free);
    text += fmt::format("{}{} steps compared ({} and {} are there), checksums of the weights at {} of them.\n",
                        text.empty() ? "" : "\n", comparison.compared_steps, comparison.first_steps,
                        comparison.second_steps, comparison.compared_weights);
    if (comparison.parting_step) {
        text += table_of(fmt::format("\nThe runs part at step {}:", *comparison.parting_step).c_str(),
                         comparison.parting_values);
    }
    for (const std::string& finding : comparison.findings) {
        text += fmt::format("- {}\n", finding);
    }
    if (comparison.same()) {
        text += comparison.compared_steps > 0 ? "The runs are the same, bit for bit, as far as both go.\n"
                                              : "The runs have no step in common.\n";
    }
    return text;
}

Json to_json(const RunComparison& comparison) {
    return {{"same", comparison.same()},
            {"definition", json_of(comparison.definition)},
            {"free", json_of(comparison.free)},
            {"first_steps", comparison.first_steps},
            {"second_steps", comparison.second_steps},
            {"compared_steps", comparison.compared_steps},
            {"compared_weights", comparison.compared_weights},
            {"parting_step", comparison.parting_step ? Json(*comparison.parting_step) : Json(nullptr)},
            {"parting_values", json_of(comparison.parting_values)},
            {"findings", comparison.findings}};
}

}  // namespace accrue
