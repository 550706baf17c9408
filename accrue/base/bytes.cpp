#include "accrue/base/bytes.h"

#include <array>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace accrue {
namespace {

constexpr std::array<std::string_view, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

std::string lower_case(std::string_view text) {
    std::string result(text);
    for (char& letter : result) {
        if (letter >= 'A' && letter <= 'Z') {
            letter = static_cast<char>(letter - 'A' + 'a');
        }
    }
    return result;
}

std::optional<double> factor_of(std::string_view unit) {
    const std::string wanted = lower_case(unit);
    if (wanted.empty()) {
        return 1.0;
    }
    double binary = 1;
    double decimal = 1;
    for (const std::string_view name : kUnits) {
        const std::string known = lower_case(name);
        if (wanted == known) {
            return binary;
        }
        if (known.size() == 3 && wanted == std::string{known[0], 'b'}) {
            return decimal;
        }
        binary *= 1024;
        decimal *= 1000;
    }
    return std::nullopt;
}

}  // namespace

std::string format_bytes(int64_t bytes) {
    if (std::abs(bytes) < 1024) {
        return fmt::format("{} B", bytes);
    }
    double value = static_cast<double>(bytes);
    size_t unit = 0;
    // 1023.995 would be written as 1024.00.
    while (std::abs(value) >= 1023.995 && unit + 1 < kUnits.size()) {
        value /= 1024;
        ++unit;
    }
    return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::optional<int64_t> parse_bytes(std::string_view text) {
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, fault] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
    if (fault != std::errc() || std::signbit(number) || !std::isfinite(number)) {
        return std::nullopt;
    }
    std::string_view unit(rest, static_cast<size_t>(end - rest));
    if (unit.starts_with(' ')) {
        unit.remove_prefix(1);
    }
    const std::optional<double> factor = factor_of(unit);
    if (!factor || number * *factor >= 0x1p63) {
        return std::nullopt;
    }
    return static_cast<int64_t>(std::llround(number * *factor));
}

std::optional<ByteSize> parse_byte_size(std::string text) {
    const std::optional<int64_t> bytes = parse_bytes(text);
    return bytes ? std::optional(ByteSize{.text = std::move(text), .bytes = *bytes}) : std::nullopt;
}

}  // namespace accrue
