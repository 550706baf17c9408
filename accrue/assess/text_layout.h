#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace accrue {

// How reports for people are laid out.

// Lines of at most 80 columns, indented; all but the first a little more.
[[nodiscard]] std::string wrapped(std::string_view text, size_t indent);
// 0.123: "12%"
[[nodiscard]] std::string percent(double share);
// 0.123: "+12.3%"
[[nodiscard]] std::string signed_percent(double gain);
// "8192", "1.64 million".
[[nodiscard]] std::string count_text(double value);

}  // namespace accrue
