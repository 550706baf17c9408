#pragma once

#include <string>

namespace accrue {

// The first line in which two settings differ, as texts of TOML: "ours here, theirs there"; empty = none does.
[[nodiscard]] std::string difference_of_settings(const std::string& ours, const std::string& theirs);

}  // namespace accrue
