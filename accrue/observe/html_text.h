#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace accrue {

// The text with everything that HTML would take for markup, in an element or in a quoted attribute, made harmless.
[[nodiscard]] std::string escape_html(std::string_view text);
// A number for people: "5.5467", "81,920", "3.00e-05"; a dash for NaN.
[[nodiscard]] std::string number_text(double value);
// A number in few characters: "950", "81.9k", "1.25M"; a dash for NaN.
[[nodiscard]] std::string short_number_text(double value);
// "45.2 s", "3 min 20 s", "2 h 05 min"; a dash for NaN.
[[nodiscard]] std::string duration_text(double seconds);

}  // namespace accrue
