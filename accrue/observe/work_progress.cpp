#include "accrue/observe/work_progress.h"

#include <utility>

#include <fmt/format.h>

#include "accrue/base/bytes.h"

namespace accrue {
namespace {

// A terminal is drawn often enough to look alive; a file is not filled with lines.
constexpr double kTerminalSeconds = 0.1;
constexpr double kFirstPlainSeconds = 1;
constexpr double kPlainSeconds = 5;

}  // namespace

WorkProgress::WorkProgress(std::FILE* out, bool is_terminal, std::string doing, std::string unit,
                           std::function<double()> now)
    : out_(out),
      is_terminal_(is_terminal),
      doing_(std::move(doing)),
      unit_(std::move(unit)),
      now_(std::move(now)),
      line_(out) {}

StatusFacts WorkProgress::facts_of(int64_t done, int64_t total, double seconds) const {
    const bool is_bytes = unit_ == "bytes";
    const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
    const double rate = static_cast<double>(done) / seconds;
    StatusFacts facts{.texts = {fmt::format("{} {:.0f}%", doing_, 100 * share)}, .done = share};
    facts.texts.push_back(is_bytes ? fmt::format("{} of {}", format_bytes(done), format_bytes(total))
                                   : fmt::format("{} of {} {}", done, total, unit_));
    facts.texts.push_back(fmt::format("{} left", short_duration(static_cast<double>(total - done) / rate)));
    if (is_bytes && seconds > 0) {
        facts.texts.push_back(fmt::format("{:.1f} MB/s", rate / 1e6));
    }
    return facts;
}

void WorkProgress::report(int64_t done, int64_t total) {
    const double now = now_();
    if (!std::exchange(begun_, true)) {
        start_ = now;
        next_shown_ = is_terminal_ ? now : now + kFirstPlainSeconds;
    }
    if (now < next_shown_) {
        return;
    }
    next_shown_ = now + (is_terminal_ ? kTerminalSeconds : kPlainSeconds);
    StatusFacts facts = facts_of(done, total, now - start_);
    if (is_terminal_) {
        line_.draw(std::move(facts));
        return;
    }
    show(out_, fmt::format("{}\n", fmt::join(facts.texts, "  ")));
}

void WorkProgress::finish() {
    line_.clear();
    begun_ = false;
}

double WorkProgress::seconds() const {
    return begun_ ? now_() - start_ : 0;
}

}  // namespace accrue
