#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

namespace accrue {

// JSON that somebody else wrote. Throws what nlohmann's parser throws, and an Error where it is nested deeper than any message of ours:
// copying and printing it takes stack for each level.
[[nodiscard]] nlohmann::ordered_json received_json(std::string_view text);

}  // namespace accrue
