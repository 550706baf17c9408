#include "accrue/base/link_speed.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace accrue {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 5> kPrefixes = {
    {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}}};

char lower_letter(char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

bool is_alike(std::string_view text, std::string_view other) {
    return std::ranges::equal(text, other, [](char a, char b) { return lower_letter(a) == lower_letter(b); });
}

std::optional<double> bits_of_unit(std::string_view unit) {
    for (const auto& [prefix, factor] : kPrefixes) {
        for (const std::string_view bits : {"bit", "bit/s", "bps"}) {
            if (is_alike(unit, fmt::format("{}{}", prefix, bits))) {
                return factor;
            }
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<double> parse_link_speed(std::string_view text) {
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, fault] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
    if (fault != std::errc() || !std::isfinite(number) || number <= 0) {
        return std::nullopt;
    }
    std::string_view unit(rest, static_cast<size_t>(end - rest));
    if (unit.starts_with(' ')) {
        unit.remove_prefix(1);
    }
    const std::optional<double> factor = bits_of_unit(unit);
    const double speed = number * factor.value_or(0);
    return speed >= 1 && std::isfinite(speed) ? std::optional(speed) : std::nullopt;
}

std::string format_link_speed(double bits_per_second) {
    size_t unit = 0;
    // 999.96 would be written as 1000.
    while (unit + 1 < kPrefixes.size() && bits_per_second >= 999.95 * kPrefixes[unit].second) {
        ++unit;
    }
    return fmt::format("{:.4g} {}bit/s", bits_per_second / kPrefixes[unit].second, kPrefixes[unit].first);
}

}  // namespace accrue
