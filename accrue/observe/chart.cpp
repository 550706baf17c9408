#include "accrue/observe/chart.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "accrue/observe/html_text.h"

namespace accrue {
namespace {

using Look = ChartSeries::Look;

constexpr double kWidth = 1000;  // stretched to the width of the page
constexpr double kHeight = 200;  // in pixels
constexpr double kSmallestMark = 6;
constexpr double kLargestMark = 14;

using Bucket = ChartBucket;
using Buckets = std::vector<Bucket>;

// What all parts of a drawing need.
struct Drawing {
    const Chart& chart;
    ChartAxis across;
    ChartAxis up;

    [[nodiscard]] double x(size_t bucket) const { return kWidth * across.place(chart.grid.middle(bucket)); }
    [[nodiscard]] double y(double value) const { return kHeight * (1 - up.place(value)); }
};

bool has_values(const Buckets& buckets) {
    return std::any_of(buckets.begin(), buckets.end(), [](const Bucket& bucket) { return bucket.count > 0; });
}

ChartAxis up_axis(const Chart& chart) {
    Bucket all;
    for (const ChartSeries& series : chart.series) {
        for (const Bucket& bucket : series.buckets) {
            if (bucket.count > 0 && series.look != Look::marks) {
                all.add(bucket.smallest);
                all.add(bucket.largest);
            }
        }
    }
    return value_axis(all.smallest, all.largest, chart.axis);
}

// Calls with [begin, end) for each run of buckets without a gap.
template <class Action>
void for_each_run(const Buckets& buckets, Action action) {
    for (size_t begin = 0; begin < buckets.size(); ++begin) {
        size_t end = begin;
        while (end < buckets.size() && buckets[end].count > 0) {
            ++end;
        }
        if (end > begin) {
            action(begin, end);
            begin = end;
        }
    }
}

std::string line_path(const Drawing& drawing, const Buckets& buckets) {
    std::string path;
    for_each_run(buckets, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end && end - begin > 1; ++i) {
            fmt::format_to(std::back_inserter(path), "{}{:.1f} {:.1f}", i == begin ? 'M' : 'L', drawing.x(i),
                           drawing.y(buckets[i].mean()));
        }
    });
    return path;
}

// The values between two gaps: lines of no length, which show as dots, because their ends are round.
std::string lone_path(const Drawing& drawing, const Buckets& buckets) {
    std::string path;
    for_each_run(buckets, [&](size_t begin, size_t end) {
        if (end - begin == 1) {
            fmt::format_to(std::back_inserter(path), "M{:.1f} {:.1f}h0", drawing.x(begin),
                           drawing.y(buckets[begin].mean()));
        }
    });
    return path;
}

std::string band_path(const Drawing& drawing, const Buckets& buckets) {
    std::string path;
    for_each_run(buckets, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) {
            fmt::format_to(std::back_inserter(path), "{}{:.1f} {:.1f}", i == begin ? 'M' : 'L', drawing.x(i),
                           drawing.y(buckets[i].largest));
        }
        for (size_t i = end; i-- > begin;) {
            fmt::format_to(std::back_inserter(path), "L{:.1f} {:.1f}", drawing.x(i), drawing.y(buckets[i].smallest));
        }
        path += "Z";
    });
    return path;
}

std::string points_path(const Drawing& drawing, const Buckets& buckets) {
    std::string path;
    for (size_t i = 0; i < buckets.size(); ++i) {
        if (buckets[i].count > 0) {
            fmt::format_to(std::back_inserter(path), "M{:.1f} {:.1f}h0", drawing.x(i), drawing.y(buckets[i].mean()));
        }
    }
    return path;
}

// The more of a bucket's steps are marked, the higher its mark.
std::string marks_path(const Drawing& drawing, const Buckets& buckets) {
    std::string path;
    for (size_t i = 0; i < buckets.size(); ++i) {
        if (buckets[i].count > 0) {
            const auto steps = static_cast<double>(drawing.chart.grid.back(i) - drawing.chart.grid.begin(i) + 1);
            const double share = std::min(1.0, static_cast<double>(buckets[i].count) / steps);
            fmt::format_to(std::back_inserter(path), "M{:.1f} {}v-{:.1f}", drawing.x(i), kHeight,
                           kSmallestMark + share * (kLargestMark - kSmallestMark));
        }
    }
    return path;
}

std::string path_svg(std::string_view style, const std::string& path) {
    return path.empty() ? "" : fmt::format("<path class=\"{}\" d=\"{}\"/>", style, path);
}

std::string series_svg(const Drawing& drawing, size_t index) {
    const Buckets& buckets = drawing.chart.series[index].buckets;
    switch (drawing.chart.series[index].look) {
        case Look::line:
            return (drawing.chart.grid.steps_each() > 1 ? path_svg("band", band_path(drawing, buckets)) : "") +
                   path_svg("line", line_path(drawing, buckets)) + path_svg("line lone", lone_path(drawing, buckets));
        case Look::dashed:
            return path_svg("dashed", line_path(drawing, buckets)) +
                   path_svg("dashed lone", lone_path(drawing, buckets));
        case Look::points:
            return path_svg("points", points_path(drawing, buckets));
        case Look::marks:
            return path_svg("marks", marks_path(drawing, buckets));
    }
    return "";
}

std::string axes_svg(const Drawing& drawing) {
    std::string svg = fmt::format("<line class=\"tick\" x1=\"0\" x2=\"100%\" y1=\"{0}\" y2=\"{0}\"/>", kHeight);
    for (const ChartAxis::Tick& tick : drawing.up.ticks) {
        fmt::format_to(std::back_inserter(svg),
                       "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/>"
                       "<text class=\"up\" x=\"-8\" y=\"{0:.1f}\" dy=\".32em\">{1}</text>",
                       drawing.y(tick.value), escape_html(tick.label));
    }
    for (const ChartAxis::Tick& tick : drawing.across.ticks) {
        fmt::format_to(std::back_inserter(svg),
                       "<line class=\"tick\" x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y1=\"{1}\" y2=\"{2}\"/>"
                       "<text class=\"across\" x=\"{0:.2f}%\" y=\"{3}\">{4}</text>",
                       100 * drawing.across.place(tick.value), kHeight, kHeight + 4, kHeight + 18,
                       escape_html(tick.label));
    }
    return svg;
}

// What is shown when a pointer rests on a bucket; empty for a bucket without values.
std::string tooltip(const Drawing& drawing, size_t bucket) {
    std::string lines;
    for (const ChartSeries& series : drawing.chart.series) {
        if (series.buckets.empty() || series.buckets[bucket].count == 0) {
            continue;
        }
        const Bucket& values = series.buckets[bucket];
        lines += '\n';
        lines += series.name;
        if (series.look != Look::marks) {
            lines += fmt::format(" {}", number_text(values.mean()));
            lines += values.count > 1 && values.smallest < values.largest
                         ? fmt::format(" ({} to {})", number_text(values.smallest), number_text(values.largest))
                         : "";
        } else if (values.count > 1) {
            lines += fmt::format(" {} times", values.count);
        }
    }
    if (lines.empty()) {
        return "";
    }
    const int64_t begin = drawing.chart.grid.begin(bucket);
    const int64_t back = drawing.chart.grid.back(bucket);
    return escape_html((begin == back ? fmt::format("step {}", begin) : fmt::format("steps {} to {}", begin, back)) +
                       lines);
}

// One stripe per bucket, as high as the chart, so that a tooltip needs no aiming.
std::string stripes_svg(const Drawing& drawing) {
    const size_t count = drawing.chart.grid.buckets();
    std::string svg = fmt::format("<g class=\"stripes\" stroke-width=\"{:.2f}\">", kWidth / static_cast<double>(count));
    for (size_t i = 0; i < count; ++i) {
        const std::string text = tooltip(drawing, i);
        if (!text.empty()) {
            fmt::format_to(std::back_inserter(svg), "<path d=\"M{:.1f} 0V{}\"><title>{}</title></path>", drawing.x(i),
                           kHeight, text);
        }
    }
    return svg + "</g>";
}

std::string legend(const Chart& chart) {
    constexpr const char* kClasses[] = {"line", "dashed", "points", "marks"};
    std::string items;
    int64_t shown = 0;
    for (const ChartSeries& series : chart.series) {
        if (has_values(series.buckets)) {
            ++shown;
            items += fmt::format("<span class=\"key {}\">{}</span>", kClasses[static_cast<size_t>(series.look)],
                                 escape_html(series.name));
        }
    }
    return shown > 1 ? "<span class=\"legend\">" + items + "</span>" : "";
}

std::string figure(const Chart& chart, const std::string& legend, const std::string& content) {
    return fmt::format(
        "<figure class=\"{}\"><figcaption><b>{}</b> <span class=\"unit\">{}</span>{}</figcaption>{}</figure>\n",
        escape_html(chart.width_class), escape_html(chart.title), escape_html(chart.unit), legend, content);
}

}  // namespace

int64_t steps_per_bucket(int64_t first_step, int64_t last_step) {
    return (last_step - first_step) / kMostChartBuckets + 1;
}

void ChartBucket::add(double value) {
    ++count;
    smallest = std::min(smallest, value);
    largest = std::max(largest, value);
    total += value;
}

// Rounding may not lead out of the bucket's own range.
double ChartBucket::mean() const {
    return std::clamp(total / static_cast<double>(count), smallest, largest);
}

void Chart::add(size_t index, int64_t step, double value) {
    ChartSeries& one = series[index];
    const bool is_drawable = axis != AxisKind::logarithmic || one.look == Look::marks || value > 0;
    if (std::isnan(value) || !is_drawable || step < grid.first || step > grid.last) {
        return;
    }
    one.buckets.resize(grid.buckets());
    one.buckets[grid.bucket_of(step)].add(value);
}

std::string chart_html(const Chart& chart) {
    const std::string nothing = "<p class=\"nothing\">No step has a value here.</p>";
    if (chart.series.empty() || !has_values(chart.series.front().buckets)) {
        return figure(chart, "", nothing);
    }
    const Drawing drawing{.chart = chart, .across = step_axis(chart.grid.first, chart.grid.last), .up = up_axis(chart)};
    std::string inside;
    for (size_t i = 0; i < chart.series.size(); ++i) {
        inside += series_svg(drawing, i);
    }
    const std::string svg = fmt::format(
        "<div class=\"plot\"><svg width=\"100%\" height=\"{0}\" role=\"img\" aria-label=\"{1} over optimizer "
        "steps\">{2}"
        "<svg viewBox=\"0 0 {3} {0}\" width=\"100%\" height=\"{0}\" "
        "preserveAspectRatio=\"none\">{4}{5}</svg></svg></div>",
        kHeight, escape_html(chart.title), axes_svg(drawing), kWidth, inside, stripes_svg(drawing));
    return figure(chart, legend(chart), svg);
}

}  // namespace accrue
