#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "accrue/assess/bench.h"

namespace accrue {

// A measurement on its way from one process to another.
[[nodiscard]] nlohmann::ordered_json to_json(const StepsMeasurement& measurement);
[[nodiscard]] nlohmann::ordered_json to_json(const GradientCheck& check);
[[nodiscard]] StepsMeasurement steps_from_json(const nlohmann::ordered_json& json);
[[nodiscard]] GradientCheck check_from_json(const nlohmann::ordered_json& json);

// Everything that the processes of one `accrue bench` found.
struct BenchFindings {
    BenchRequest request;
    GradientCheck check;
    double bandwidth = 0;                       // bytes a second
    std::vector<StepsMeasurement> beside_fp32;  // with sums_beside_fp32(request), one per process
    std::vector<StepsMeasurement> fp32;         // with fp32 sums, as many
};

// Where and how it was measured, for the result file.
struct BenchOrigin {
    std::string commit;
    std::string command;
};

// The result file. Its times are those of the step with the median time, so that its parts add up to it; where there is
// an even number of steps, the slower of the middle two.
[[nodiscard]] nlohmann::ordered_json bench_json(const BenchFindings& findings, const BenchOrigin& origin);

// The same for people, a line for each thing.
[[nodiscard]] std::string bench_text(const nlohmann::ordered_json& result);

}  // namespace accrue
