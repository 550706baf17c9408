#include "accrue/observe/progress.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <sys/ioctl.h>

#include "accrue/base/bytes.h"

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

// 950, 12.3k, 4.56M
std::string short_number(double value) {
    if (value < 1000) {
        return fmt::format("{:.0f}", value);
    }
    return value < 1e6 ? fmt::format("{:.1f}k", value / 1e3) : fmt::format("{:.2f}M", value / 1e6);
}

std::string duration(double seconds) {
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

// The facts as short texts, the most wanted first.
std::vector<std::string> texts_of(const ProgressFacts& facts, int64_t total_steps) {
    std::vector<std::string> texts = {fmt::format("step {}/{}", facts.step, total_steps),
                                      fmt::format("loss {:.4f}", facts.loss),
                                      fmt::format("{} left", duration(facts.seconds_left))};
    if (facts.validation_loss) {
        texts.push_back(fmt::format("validation {:.4f}", *facts.validation_loss));
    }
    texts.push_back(fmt::format("{} tokens/s", short_number(facts.tokens_per_second)));
    texts.push_back(fmt::format("{} updates/h", short_number(facts.updates_per_hour)));
    texts.push_back(fmt::format("peak {}", format_bytes(facts.peak_bytes)));
    return texts;
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

// A line of at most `width` characters: the step, a bar, and as many more facts as fit beside the narrowest bar.
std::string terminal_line(const ProgressFacts& facts, int64_t total_steps, size_t width) {
    const std::vector<std::string> texts = texts_of(facts, total_steps);
    const std::string& step = texts.front();
    std::string rest;
    for (size_t i = 1; i < texts.size(); ++i) {
        if (step.size() + 1 + kNarrowestBar + rest.size() + 2 + texts[i].size() > width) {
            break;
        }
        rest += "  " + texts[i];
    }
    const size_t room = width - std::min(width, step.size() + 1 + rest.size());
    if (room < kNarrowestBar) {
        return (step + rest).substr(0, width);
    }
    const double done = total_steps > 0 ? static_cast<double>(facts.step) / static_cast<double>(total_steps) : 0;
    return step + " " + bar_of(std::min(room, kWidestBar), done) + rest;
}

}  // namespace

Progress::Progress(std::FILE* out, bool is_terminal, int64_t total_steps)
    : out_(out), is_terminal_(is_terminal), total_steps_(total_steps) {}

void Progress::report(const ProgressFacts& facts) {
    if (is_terminal_) {
        shown_ = facts;
        draw();
        return;
    }
    fmt::print(out_, "{}\n", fmt::join(texts_of(facts, total_steps_), "  "));
    std::fflush(out_);
}

void Progress::note(const std::string& line) {
    fmt::print(out_, "{}{}\n", shown_ ? kStartOfLine : "", line);
    if (shown_) {
        draw();
    }
    std::fflush(out_);
}

void Progress::finish() {
    if (shown_) {
        fmt::print(out_, "\n");
        shown_.reset();
    }
    std::fflush(out_);
}

void Progress::draw() {
    // One column stays free: a character in the last one makes some terminals begin a new line.
    fmt::print(out_, "{}{}", kStartOfLine, terminal_line(*shown_, total_steps_, width_of(out_) - 1));
    std::fflush(out_);
}

}  // namespace accrue
