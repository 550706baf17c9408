#include "accrue/observe/progress.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "accrue/base/bytes.h"

namespace accrue {
namespace {

// The facts as short texts, the most wanted first.
std::vector<std::string> texts_of(const ProgressFacts& facts, int64_t total_steps) {
    std::vector<std::string> texts = {fmt::format("step {}/{}", facts.step, total_steps),
                                      fmt::format("loss {:.4f}", facts.loss),
                                      fmt::format("{} left", short_duration(facts.seconds_left))};
    if (facts.validation_loss) {
        texts.push_back(fmt::format("validation {:.4f}", *facts.validation_loss));
    }
    texts.push_back(fmt::format("{} tokens/s", short_number(facts.tokens_per_second)));
    texts.push_back(fmt::format("{} updates/h", short_number(facts.updates_per_hour)));
    texts.push_back(fmt::format("peak {}", format_bytes(facts.peak_bytes)));
    return texts;
}

}  // namespace

Progress::Progress(std::FILE* out, bool is_terminal, int64_t total_steps, RunWatch* watch, std::function<double()> now)
    : out_(out),
      is_terminal_(is_terminal),
      total_steps_(total_steps),
      now_(std::move(now)),
      line_(out),
      watch_(watch != nullptr ? watch : &unwatched_) {}

void Progress::first_validation(double loss) {
    validation_loss_ = loss;
    note(fmt::format("validation loss before the first step: {:.4f}", loss));
}

WorkProgress Progress::work(std::string doing, std::string unit) const {
    return {out_, is_terminal_, std::move(doing), std::move(unit), now_};
}

void Progress::text(std::string_view piece) {
    show(out_, piece);
}

void Progress::report(const ProgressFacts& facts) {
    validation_loss_ = facts.validation_loss ? facts.validation_loss : validation_loss_;
    ProgressFacts shown = facts;
    shown.validation_loss = is_terminal_ ? validation_loss_ : facts.validation_loss;
    const std::vector<std::string> texts = texts_of(shown, total_steps_);
    if (is_terminal_) {
        line_.draw(
            {.texts = texts,
             .done = total_steps_ > 0 ? static_cast<double>(facts.step) / static_cast<double>(total_steps_) : 0});
        return;
    }
    show(out_, fmt::format("{}\n", fmt::join(texts, "  ")));
}

}  // namespace accrue
