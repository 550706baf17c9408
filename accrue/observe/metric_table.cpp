#include "accrue/observe/metric_table.h"

#include <fmt/format.h>

namespace accrue {

std::string describe_metrics() {
    std::string text;
    for (const Metric& metric : Metrics::kAll) {
        text += fmt::format("{:<24}{}\n", metric.name, metric.meaning);
    }
    return text;
}

}  // namespace accrue
