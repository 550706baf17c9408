#include "accrue/assess/text_layout.h"

#include <algorithm>

#include <fmt/format.h>

namespace accrue {

std::string wrapped(std::string_view text, size_t indent) {
    constexpr size_t kColumns = 80;
    std::string result(indent, ' ');
    size_t column = indent;
    for (size_t first = 0; first < text.size();) {
        const size_t end = std::min(text.find(' ', first), text.size());
        const bool is_first = first == 0;
        if (!is_first && column + 1 + end - first > kColumns) {
            result += '\n';
            result.append(2 * indent, ' ');
            column = 2 * indent;
        } else if (!is_first) {
            result += ' ';
            ++column;
        }
        result += text.substr(first, end - first);
        column += end - first;
        first = end + 1;
    }
    result += '\n';
    return result;
}

std::string percent(double share) {
    return fmt::format("{:.0f}%", 100 * share);
}

std::string signed_percent(double gain) {
    return fmt::format("{:+.1f}%", 100 * gain);
}

std::string count_text(double value) {
    return value < 1e6 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g} million", value / 1e6);
}

}  // namespace accrue
