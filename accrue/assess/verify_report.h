#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "accrue/assess/verify.h"

namespace accrue {

// A report for people, at most 80 columns wide, in the order in which it becomes known: which window, a line for each
// way of computing it, and what was found.
[[nodiscard]] std::string verify_head(const VerifyReport& report);
[[nodiscard]] std::string verify_line(const VerifyCase& result);
[[nodiscard]] std::string verify_tail(const VerifyReport& report);

// The same for programs.
[[nodiscard]] nlohmann::ordered_json to_json(const VerifyReport& report);

// The lines about a mean of means; "" if there is nothing to say.
[[nodiscard]] std::string means_text(const std::vector<MeanOfMeans>& means);

}  // namespace accrue
