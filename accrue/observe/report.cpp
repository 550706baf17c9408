#include "accrue/observe/report.h"

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "accrue/base/bytes.h"
#include "accrue/observe/chart.h"
#include "accrue/observe/html_text.h"
#include "accrue/observe/metrics_rows.h"
#include "accrue/observe/report_style.h"
#include "accrue/observe/run_figures.h"

namespace accrue {
namespace {

using Look = ChartSeries::Look;

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

// `before` comes first where it is given.
std::string change_html(const FirstAndLast& values, double before = kNothing) {
    FirstAndLast all;
    for (const double value : {before, values.first, values.last}) {
        all.add(value);
    }
    all.count -= values.count == 1 ? 1 : 0;  // its first value is its last
    return all.count > 1 ? loss_text(all.first) + "<i>\u2192</i>" + loss_text(all.last) : loss_text(all.first);
}

std::string figure_html(std::string_view label, std::string_view value_html) {
    return fmt::format("<div><span>{}</span><b>{}</b></div>\n", escape_html(label), value_html);
}

std::string worker_figures_html(const WorkerFigures& workers) {
    if (workers.steps == 0) {
        return "";
    }
    return figure_html("Workers", number_text(workers.workers.last)) +
           figure_html("Exchange of sums", duration_text(workers.exchange_seconds)) +
           figure_html("Sent by workers", bytes_text(workers.exchange_bytes)) +
           figure_html("Lost workers", number_text(workers.lost.total())) +
           figure_html("Grains computed again", number_text(workers.recomputed_grains.total()));
}

std::string figures_html(const RunFigures& run) {
    return "<section class=\"figures\">\n" + figure_html("Training loss", change_html(run.loss)) +
           figure_html("Validation loss", change_html(run.validation_loss, run.validation_before)) +
           figure_html("Optimizer steps", number_text(static_cast<double>(run.last_step))) +
           figure_html("Tokens", short_number_text(run.tokens)) +
           figure_html("Time in steps", duration_text(run.seconds)) +
           figure_html("Tokens per second, median", short_number_text(run.tokens_per_second.median())) +
           figure_html("Updates per hour, median", short_number_text(run.updates_per_hour.median())) +
           figure_html("Peak memory", bytes_text(run.peak_bytes)) +
           figure_html("Skipped windows", number_text(run.skipped)) +
           (run.loss_scale.count > 0 ? figure_html("Loss scale", number_text(run.loss_scale.last)) : "") +
           figure_html("Replays", number_text(run.replays)) + worker_figures_html(run.workers) + "</section>\n";
}

// Which value of a step a chart shows, and how.
struct DrawnColumn {
    const char* name;
    double MetricsRow::*value;
    Look look = Look::line;
};
struct DrawnChart {
    const char* title;
    const char* unit;
    AxisKind axis;
    const char* width_class;
    std::vector<DrawnColumn> columns;
};

std::vector<DrawnChart> drawn_charts() {
    return {{"Loss",
             "nats per token",
             AxisKind::from_data,
             "full",
             {{"training", &MetricsRow::loss},
              {"validation", &MetricsRow::validation_loss, Look::points},
              {"skipped", &MetricsRow::skipped, Look::marks}}},
            {"Gradient norm",
             "before clipping",
             AxisKind::from_zero,
             "half",
             {{"norm", &MetricsRow::grad_norm}, {"clipped", &MetricsRow::clipped, Look::marks}}},
            {"Noise scale",
             "tokens",
             AxisKind::logarithmic,
             "half",
             {{"noise scale", &MetricsRow::noise_scale}, {"window", &MetricsRow::tokens, Look::dashed}}},
            {"Learning rate", "", AxisKind::from_zero, "third", {{"rate", &MetricsRow::rate}}},
            {"Time per step", "seconds", AxisKind::from_zero, "third", {{"seconds", &MetricsRow::seconds}}},
            {"Throughput",
             "tokens per second",
             AxisKind::from_zero,
             "third",
             {{"tokens per second", &MetricsRow::tokens_per_second}}}};
}

// The charts of a run whose range of steps is known. The state before the first step is step 0, of which only the
// validation loss is known.
class ReportCharts {
public:
    explicit ReportCharts(const RunFigures& run) {
        const bool has_step_zero = !std::isnan(run.validation_before);
        grid_ = {.first = has_step_zero ? 0 : run.first_step, .last = run.last_step};
        for (const DrawnChart& drawn : drawn_) {
            Chart& chart = charts_.emplace_back(Chart{.title = drawn.title,
                                                      .unit = drawn.unit,
                                                      .grid = grid_,
                                                      .series = {},
                                                      .axis = drawn.axis,
                                                      .width_class = drawn.width_class});
            for (const DrawnColumn& column : drawn.columns) {
                chart.series.push_back({column.name, column.look});
            }
        }
        if (has_step_zero) {
            add({.step = 0, .validation_loss = run.validation_before});
        }
    }

    void add(const MetricsRow& row) {
        for (size_t chart = 0; chart < charts_.size(); ++chart) {
            for (size_t column = 0; column < drawn_[chart].columns.size(); ++column) {
                charts_[chart].add(column, row.step, row.*drawn_[chart].columns[column].value);
            }
        }
    }

    [[nodiscard]] std::string html() const {
        const int64_t steps_each = grid_.steps_each();
        std::string html = fmt::format(
            "<h2>Over optimizer steps{}</h2>\n<section class=\"charts\">\n",
            steps_each > 1
                ? fmt::format(
                      " <small>lines are means of {} steps, bands reach from the smallest to the largest</small>",
                      number_text(static_cast<double>(steps_each)))
                : "");
        for (const Chart& chart : charts_) {
            html += chart_html(chart);
        }
        return html + "</section>\n";
    }

private:
    std::vector<DrawnChart> drawn_ = drawn_charts();
    ChartGrid grid_;
    std::vector<Chart> charts_;
};

std::string note_of(const MetricsRow& row) {
    std::string note = std::isnan(row.skipped) ? "" : "skipped ";
    note += row.skipped > 0 && !std::isnan(row.loss_scale)
                ? fmt::format("at loss scale {} ", number_text(row.loss_scale))
                : "";
    note += std::isnan(row.clipped) ? "" : "clipped ";
    note += row.replays > 0 ? fmt::format("replays: {}", number_text(row.replays)) : "";
    return note;
}

std::string last_steps_html(const RunFigures& run) {
    std::string html = "<h2>Last steps</h2>\n<div class=\"table\"><table>\n<tr>";
    for (const char* name : {"step", "loss", "validation", "gradient norm", "noise scale", "rate", "tokens", "seconds",
                             "tokens/s", "notes"}) {
        html += fmt::format("<th>{}</th>", name);
    }
    html += "</tr>\n";
    for (const MetricsRow& row : run.last_rows) {
        html += fmt::format("<tr><td>{}</td>", row.step);
        for (const std::string& text :
             {loss_text(row.loss), loss_text(row.validation_loss), fixed_text(row.grad_norm, 4),
              fixed_text(row.noise_scale, 1), number_text(row.rate), number_text(row.tokens),
              fixed_text(row.seconds, 3), fixed_text(row.tokens_per_second, 1)}) {
            html += fmt::format("<td>{}</td>", text);
        }
        html += fmt::format("<td>{}</td></tr>\n", escape_html(note_of(row)));
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
std::string notice_html(const MetricsReading& reading, const std::filesystem::path& metrics_file) {
    const std::string name = metrics_file.string();
    std::string text;
    if (!reading.is_whole) {
        text = fmt::format("The metrics file {} could not be read{}", name,
                           reading.rows == 0 ? "." : " to its end: what follows is its readable part.");
    } else if (reading.rows == 0) {
        text = fmt::format("The metrics file {} has no optimizer step yet.", name);
    }
    if (reading.unusable_lines > 0) {
        text += fmt::format("{}Lines of {} that are not whole or have no step, and are left out here: {}.",
                            text.empty() ? "" : " ", name, reading.unusable_lines);
    }
    return text.empty() ? "" : fmt::format("<p class=\"notice\">{}</p>\n", escape_html(text));
}

}  // namespace

std::string report_html(const std::filesystem::path& metrics_file, const ReportFacts& facts) {
    RunFigures run;
    const MetricsReading reading = read_metrics(metrics_file, [&](const MetricsRow& row) { run.add(row); });
    std::string html = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{0}</title>\n<style>{1}</style>\n</head>\n"
        "<body>\n<main>\n<h1>{0}</h1>\n",
        escape_html(facts.title), kReportStyle);
    html += facts_html(facts);
    html += notice_html(reading, metrics_file);
    if (run.rows > 0) {
        ReportCharts charts(run);
        (void)read_metrics(metrics_file, [&](const MetricsRow& row) { charts.add(row); });
        html += figures_html(run) + charts.html() + last_steps_html(run);
    }
    return html + "</main>\n</body>\n</html>\n";
}

}  // namespace accrue
