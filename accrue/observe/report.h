#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accrue {

// What a report says about a run besides its metrics.
struct ReportFacts {
    struct Fact {
        std::string label;
        std::string value;
    };
    std::string title;
    std::vector<Fact> facts;  // shown in this order
};

// One HTML page with the run's facts, headline figures, charts and last steps. It needs nothing from elsewhere: style and
// drawings are inside, and there is no script. A metrics file that cannot be read or has no step gives a page that says so.
[[nodiscard]] std::string report_html(const std::filesystem::path& metrics_file, const ReportFacts& facts);

}  // namespace accrue
