#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "accrue/assess/replay.h"

namespace accrue {

// Something that two runs have different values for, as text.
struct ValueDifference {
    std::string key;
    std::string first;
    std::string second;
};

// What two run folders say about each other.
struct RunComparison {
    std::vector<ValueDifference> definition;  // settings that the weights depend on
    std::vector<ValueDifference> free;        // settings that they do not depend on
    int64_t first_steps = 0;                  // lines of metrics in each
    int64_t second_steps = 0;
    int64_t compared_steps = 0;
    int64_t compared_weights = 0;         // steps for which both say a checksum of the weights
    std::optional<int64_t> parting_step;  // the first where they say something else
    std::vector<ValueDifference> parting_values;
    std::vector<std::string> findings;  // why, from their checkpoints and from computing the step again

    [[nodiscard]] bool same() const { return !parting_step && findings.empty(); }
};

// Compares metrics and checkpoints; where the runs part, computes that step again in both. `works` is told what is done.
[[nodiscard]] RunComparison compare_runs(const RunFolder& first, const RunFolder& second,
                                         const ProgramUnderTest& program,
                                         const std::function<void(const std::string& what)>& works);

// For people and for programs.
[[nodiscard]] std::string to_text(const RunComparison& comparison);
[[nodiscard]] nlohmann::ordered_json to_json(const RunComparison& comparison);

}  // namespace accrue
