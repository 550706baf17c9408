#include "accrue/observe/byte_progress.h"

#include <utility>

#include <fmt/format.h>

#include "accrue/base/bytes.h"

namespace accrue {
namespace {

// A terminal is drawn often enough to look alive; a file is not filled with lines.
constexpr double kTerminalSeconds = 0.1;
constexpr double kPlainSeconds = 5;

}  // namespace

ByteProgress::ByteProgress(std::FILE* out, bool is_terminal, std::string doing, std::function<double()> now)
    : out_(out), is_terminal_(is_terminal), doing_(std::move(doing)), now_(std::move(now)), line_(out) {}

void ByteProgress::report(int64_t bytes_done, int64_t bytes_total) {
    const double now = now_();
    if (!std::exchange(begun_, true)) {
        start_ = last_shown_ = now;
        return;  // nothing can be said of the rate yet
    }
    if (now - last_shown_ < (is_terminal_ ? kTerminalSeconds : kPlainSeconds)) {
        return;
    }
    last_shown_ = now;
    const auto done = static_cast<double>(bytes_done);
    const auto total = static_cast<double>(bytes_total);
    const double rate = done / (now - start_);
    StatusFacts facts{.texts = {fmt::format("{} {:.0f}%", doing_, bytes_total > 0 ? 100 * done / total : 0),
                                fmt::format("{} of {}", format_bytes(bytes_done), format_bytes(bytes_total)),
                                fmt::format("{} left", short_duration((total - done) / rate)),
                                fmt::format("{:.1f} MB/s", rate / 1e6)},
                      .done = bytes_total > 0 ? done / total : 0};
    if (is_terminal_) {
        line_.draw(std::move(facts));
        return;
    }
    show(out_, fmt::format("{}\n", fmt::join(facts.texts, "  ")));
}

void ByteProgress::finish() {
    line_.clear();
    begun_ = false;
}

double ByteProgress::seconds() const {
    return begun_ ? now_() - start_ : 0;
}

}  // namespace accrue
