#include "accrue/observe/report.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "accrue/base/bytes.h"
#include "accrue/observe/chart.h"
#include "accrue/observe/history.h"
#include "accrue/observe/html_text.h"
#include "accrue/observe/report_style.h"

namespace accrue {
namespace {

using Column = std::span<const double>;
using Look = ChartSeries::Look;

constexpr size_t kLastSteps = 10;

std::vector<double> present(Column column) {
    std::vector<double> values;
    std::copy_if(column.begin(), column.end(), std::back_inserter(values),
                 [](double value) { return !std::isnan(value); });
    return values;
}

double total(Column column) {
    double sum = 0;
    for (const double value : present(column)) {
        sum += value;
    }
    return sum;
}

double largest(Column column) {
    const std::vector<double> values = present(column);
    return values.empty() ? kNothing : *std::max_element(values.begin(), values.end());
}

// Of an even number of values, the mean of the two in the middle.
double median(Column column) {
    std::vector<double> values = present(column);
    if (values.empty()) {
        return kNothing;
    }
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return values.size() % 2 == 1 ? *middle : (*std::max_element(values.begin(), middle) + *middle) / 2;
}

std::string bytes_text(double bytes) {
    return bytes >= 0 && bytes < 0x1p62 ? format_bytes(static_cast<int64_t>(bytes)) : number_text(kNothing);
}

// Numbers under each other want the same number of decimals.
std::string fixed_text(double value, int decimals) {
    return std::abs(value) < 1000 ? fmt::format("{:.{}f}", value, decimals) : number_text(value);
}

std::string loss_text(double loss) {
    return fixed_text(loss, 4);
}

// The first and the last value of a column; `before` is first where it is given.
std::string change_html(Column column, double before = kNothing) {
    std::vector<double> values = present(column);
    if (!std::isnan(before)) {
        values.insert(values.begin(), before);
    }
    if (values.empty()) {
        return number_text(kNothing);
    }
    return values.size() == 1 ? loss_text(values.front())
                              : loss_text(values.front()) + "<i>\u2192</i>" + loss_text(values.back());
}

std::string figure_html(std::string_view label, std::string_view value_html) {
    return fmt::format("<div><span>{}</span><b>{}</b></div>\n", escape_html(label), value_html);
}

std::string figures_html(const RunHistory& history) {
    const int64_t steps = *std::max_element(history.steps.begin(), history.steps.end());
    return "<section class=\"figures\">\n" + figure_html("Training loss", change_html(history.loss)) +
           figure_html("Validation loss", change_html(history.validation_loss, history.validation_before)) +
           figure_html("Optimizer steps", number_text(static_cast<double>(steps))) +
           figure_html("Tokens", short_number_text(total(history.tokens))) +
           figure_html("Time in steps", duration_text(total(history.seconds))) +
           figure_html("Tokens per second, median", short_number_text(median(history.tokens_per_second))) +
           figure_html("Updates per hour, median", short_number_text(median(history.updates_per_hour))) +
           figure_html("Peak memory", bytes_text(largest(history.peak_bytes))) +
           figure_html("Skipped windows", number_text(total(history.skipped))) +
           figure_html("Replays", number_text(total(history.replays))) + "</section>\n";
}

// The history as charts show it: the state before the first step is step 0, of which only the validation loss is known.
RunHistory with_step_zero(RunHistory history) {
    if (std::isnan(history.validation_before)) {
        return history;
    }
    history.steps.insert(history.steps.begin(), 0);
    for (const auto& [metric, values] : kHistoryColumns) {
        (history.*values).insert((history.*values).begin(), kNothing);
    }
    history.validation_loss.front() = history.validation_before;
    return history;
}

std::string charts_html(const RunHistory& history) {
    const std::vector<Chart> charts = {
        {.title = "Loss",
         .unit = "nats per token",
         .steps = history.steps,
         .series = {{"training", history.loss},
                    {"validation", history.validation_loss, Look::points},
                    {"skipped", history.skipped, Look::marks}},
         .width_class = "full"},
        {.title = "Gradient norm",
         .unit = "before clipping",
         .steps = history.steps,
         .series = {{"norm", history.grad_norm}, {"clipped", history.clipped, Look::marks}},
         .axis = AxisKind::from_zero,
         .width_class = "half"},
        {.title = "Noise scale",
         .unit = "tokens",
         .steps = history.steps,
         .series = {{"noise scale", history.noise_scale}, {"window", history.tokens, Look::dashed}},
         .axis = AxisKind::logarithmic,
         .width_class = "half"},
        {.title = "Learning rate",
         .unit = "",
         .steps = history.steps,
         .series = {{"rate", history.rate}},
         .axis = AxisKind::from_zero,
         .width_class = "third"},
        {.title = "Time per step",
         .unit = "seconds",
         .steps = history.steps,
         .series = {{"seconds", history.seconds}},
         .axis = AxisKind::from_zero,
         .width_class = "third"},
        {.title = "Throughput",
         .unit = "tokens per second",
         .steps = history.steps,
         .series = {{"tokens per second", history.tokens_per_second}},
         .axis = AxisKind::from_zero,
         .width_class = "third"},
    };
    const auto [first, last] = std::minmax_element(history.steps.begin(), history.steps.end());
    const int64_t steps_each = steps_per_bucket(*first, *last);
    std::string html = fmt::format(
        "<h2>Over optimizer steps{}</h2>\n<section class=\"charts\">\n",
        steps_each > 1
            ? fmt::format(" <small>lines are means of {} steps, bands reach from the smallest to the largest</small>",
                          number_text(static_cast<double>(steps_each)))
            : "");
    for (const Chart& chart : charts) {
        html += chart_html(chart);
    }
    return html + "</section>\n";
}

std::string note_of(const RunHistory& history, size_t row) {
    std::string note = std::isnan(history.skipped[row]) ? "" : "skipped ";
    note += std::isnan(history.clipped[row]) ? "" : "clipped ";
    note += history.replays[row] > 0 ? fmt::format("replays: {}", number_text(history.replays[row])) : "";
    return note;
}

std::string last_steps_html(const RunHistory& history) {
    const size_t rows = history.steps.size();
    const size_t first = rows - std::min(rows, kLastSteps);
    std::string html = "<h2>Last steps</h2>\n<div class=\"table\"><table>\n<tr>";
    for (const char* name : {"step", "loss", "validation", "gradient norm", "noise scale", "rate", "tokens", "seconds",
                             "tokens/s", "notes"}) {
        html += fmt::format("<th>{}</th>", name);
    }
    html += "</tr>\n";
    for (size_t row = first; row < rows; ++row) {
        html += fmt::format("<tr><td>{}</td>", history.steps[row]);
        for (const std::string& text :
             {loss_text(history.loss[row]), loss_text(history.validation_loss[row]),
              fixed_text(history.grad_norm[row], 4), fixed_text(history.noise_scale[row], 1),
              number_text(history.rate[row]), number_text(history.tokens[row]), fixed_text(history.seconds[row], 3),
              fixed_text(history.tokens_per_second[row], 1)}) {
            html += fmt::format("<td>{}</td>", text);
        }
        html += fmt::format("<td>{}</td></tr>\n", escape_html(note_of(history, row)));
    }
    return html + "</table></div>\n";
}

std::string facts_html(const ReportFacts& facts) {
    std::string html = "<dl class=\"facts\">\n";
    for (const ReportFacts::Fact& fact : facts.facts) {
        html += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape_html(fact.label), escape_html(fact.value));
    }
    return html + "</dl>\n";
}

// What a reader should know about the file itself; empty if there is nothing.
std::string notice_html(const RunHistory& history, const std::filesystem::path& metrics_file) {
    const std::string name = metrics_file.string();
    std::string text;
    if (!history.readable) {
        text = fmt::format("The metrics file {} could not be read{}", name,
                           history.steps.empty() ? "." : " to its end: what follows is its readable part.");
    } else if (history.steps.empty()) {
        text = fmt::format("The metrics file {} has no optimizer step yet.", name);
    }
    if (history.unusable_lines > 0) {
        text += fmt::format("{}Lines of {} that are not whole or have no step, and are left out here: {}.",
                            text.empty() ? "" : " ", name, history.unusable_lines);
    }
    return text.empty() ? "" : fmt::format("<p class=\"notice\">{}</p>\n", escape_html(text));
}

}  // namespace

std::string report_html(const std::filesystem::path& metrics_file, const ReportFacts& facts) {
    const RunHistory history = read_history(metrics_file);
    std::string html = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{0}</title>\n<style>{1}</style>\n</head>\n"
        "<body>\n<main>\n<h1>{0}</h1>\n",
        escape_html(facts.title), kReportStyle);
    html += facts_html(facts);
    html += notice_html(history, metrics_file);
    if (!history.steps.empty()) {
        html += figures_html(history);
        html += charts_html(with_step_zero(history));
        html += last_steps_html(history);
    }
    return html + "</main>\n</body>\n</html>\n";
}

}  // namespace accrue
