#include "accrue/observe/status_line.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sys/ioctl.h>

namespace accrue {
namespace {

constexpr size_t kNarrowest = 40;
constexpr size_t kUsualWidth = 80;
constexpr size_t kWidestBar = 40;
constexpr size_t kNarrowestBar = 10;
constexpr std::string_view kStartOfLine = "\r\x1b[K";  // back to the first column, and clear to the end

size_t width_of(std::FILE* out) {
    winsize size{};
    const bool known = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return std::max(known ? size_t{size.ws_col} : kUsualWidth, kNarrowest);
}

std::string bar_of(size_t width, double done) {
    const size_t cells = width - 2;
    const auto full = static_cast<size_t>(std::clamp(done, 0.0, 1.0) * static_cast<double>(cells));
    std::string inside(full, '=');
    if (full > 0 && full < cells) {
        inside.back() = '>';
    }
    inside.resize(cells, ' ');
    return "[" + inside + "]";
}

// A line of at most `width` characters: the first text, a bar, and as many more texts as fit beside the narrowest bar.
std::string line_of(const StatusFacts& facts, size_t width) {
    const std::string& first = facts.texts.front();
    std::string rest;
    for (size_t i = 1; i < facts.texts.size(); ++i) {
        if (first.size() + 1 + kNarrowestBar + rest.size() + 2 + facts.texts[i].size() > width) {
            break;
        }
        rest += "  " + facts.texts[i];
    }
    const size_t room = width - std::min(width, first.size() + 1 + rest.size());
    if (room < kNarrowestBar) {
        return (first + rest).substr(0, width);
    }
    return first + " " + bar_of(std::min(room, kWidestBar), facts.done) + rest;
}

}  // namespace

std::string short_number(double value) {
    if (value < 1000) {
        return fmt::format("{:.0f}", value);
    }
    return value < 1e6 ? fmt::format("{:.1f}k", value / 1e3) : fmt::format("{:.2f}M", value / 1e6);
}

std::string short_duration(double seconds) {
    // A first step has no rate yet, and a guess of centuries is none.
    if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) {
        return "?";
    }
    const auto whole = static_cast<int64_t>(std::llround(seconds));
    if (whole < 60) {
        return fmt::format("{}s", whole);
    }
    if (whole < 3600) {
        return fmt::format("{}m {:02}s", whole / 60, whole % 60);
    }
    return fmt::format("{}h {:02}m", whole / 3600, whole / 60 % 60);
}

void StatusLine::draw(StatusFacts facts) {
    shown_ = std::move(facts);
    draw_shown();
}

void show(std::FILE* out, std::string_view text) {
    (void)std::fwrite(text.data(), 1, text.size(), out);
    (void)std::fflush(out);
}

void StatusLine::note(const std::string& line) {
    show(out_, fmt::format("{}{}\n", shown_ ? kStartOfLine : "", line));
    if (shown_) {
        draw_shown();
    }
}

void StatusLine::finish() {
    show(out_, shown_ ? "\n" : "");
    shown_.reset();
}

void StatusLine::clear() {
    show(out_, shown_ ? kStartOfLine : "");
    shown_.reset();
}

void StatusLine::draw_shown() {
    // One column stays free: a character in the last one makes some terminals begin a new line.
    show(out_, fmt::format("{}{}", kStartOfLine, line_of(*shown_, width_of(out_) - 1)));
}

}  // namespace accrue
