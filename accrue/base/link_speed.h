#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace accrue {

// How many bits a second a network link carries: "1Gbit", "100 Mbit/s", "2.5Gbps", "9600bit", in any case of letters. Nothing if
// it is no such text, or no speed above 0. Bytes are not understood: nobody could say which of the two somebody meant.
[[nodiscard]] std::optional<double> parse_link_speed(std::string_view text);
// For people: "1 Gbit/s", "2.5 Gbit/s", "950 kbit/s".
[[nodiscard]] std::string format_link_speed(double bits_per_second);

}  // namespace accrue
