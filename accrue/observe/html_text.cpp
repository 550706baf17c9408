#include "accrue/observe/html_text.h"

#include <cmath>

#include <fmt/format.h>

namespace accrue {
namespace {

constexpr std::string_view kDash = "\u2013";

// A whole number with a comma between thousands.
std::string grouped(double value) {
    std::string text = fmt::format("{:.0f}", value);
    const size_t first_digit = value < 0 ? 1 : 0;
    for (size_t place = text.size(); place > first_digit + 3;) {
        place -= 3;
        text.insert(place, 1, ',');
    }
    return text;
}

}  // namespace

std::string escape_html(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    for (const char letter : text) {
        switch (letter) {
            case '&':
                result += "&amp;";
                break;
            case '<':
                result += "&lt;";
                break;
            case '>':
                result += "&gt;";
                break;
            case '"':
                result += "&quot;";
                break;
            case '\'':
                result += "&#39;";
                break;
            default:
                result += letter;
        }
    }
    return result;
}

std::string number_text(double value) {
    const double size = std::abs(value);
    if (std::isnan(value)) {
        return std::string(kDash);
    }
    if (size >= 1e15 || (size < 1e-3 && size > 0)) {
        return fmt::format("{:.2e}", value);
    }
    return size >= 1000 ? grouped(value) : fmt::format("{:.5g}", value);
}

std::string short_number_text(double value) {
    const double size = std::abs(value);
    if (std::isnan(value) || size >= 1e15 || size < 1000) {
        return number_text(value);
    }
    if (size < 1e6) {
        return size < 1e5 ? grouped(value) : fmt::format("{:.4g}k", value / 1e3);
    }
    if (size < 1e9) {
        return fmt::format("{:.4g}M", value / 1e6);
    }
    return size < 1e12 ? fmt::format("{:.4g}G", value / 1e9) : fmt::format("{:.4g}T", value / 1e12);
}

std::string duration_text(double seconds) {
    if (std::isnan(seconds) || seconds < 0 || seconds > 1e12) {
        return std::string(kDash);
    }
    if (seconds < 59.95) {
        return fmt::format("{:.3g} s", seconds);
    }
    const auto whole = static_cast<int64_t>(std::llround(seconds));
    if (whole < 3600) {
        return fmt::format("{} min {:02} s", whole / 60, whole % 60);
    }
    return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

}  // namespace accrue
