#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "accrue/base/clock.h"
#include "accrue/base/long_work.h"
#include "accrue/observe/run_watch.h"
#include "accrue/observe/status_line.h"
#include "accrue/observe/work_progress.h"

namespace accrue {

// What a person wants to know while a run goes on.
struct ProgressFacts {
    int64_t step = 0;
    double loss = 0;
    std::optional<double> validation_loss;  // where it was measured after this step
    double tokens_per_second = 0;
    double updates_per_hour = 0;
    int64_t peak_bytes = 0;
    double seconds_left = 0;
};

// Shows how far a run is: on a terminal one line with a bar that is drawn again and again, elsewhere one plain line per
// report. The terminal's line keeps the last validation loss; a plain line has it where it was measured.
class Progress {
public:
    // `watch`, where one is given, is told what the run is doing; it must outlive this. `now` is a clock in seconds, from any
    // point in time.
    Progress(std::FILE* out, bool is_terminal, int64_t total_steps, RunWatch* watch = nullptr,
             std::function<double()> now = seconds_now);
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void report(const ProgressFacts& facts);
    // The validation loss before the first step: a whole line, and kept from then on.
    void first_validation(double loss);
    // For long work between two reports, which takes the bar's place while it lives; see WorkProgress.
    [[nodiscard]] WorkProgress work(std::string doing, std::string unit) const;
    // The same while action(LongWork) does the work by all threads of the pool.
    template <class Action>
    auto show_work(std::string doing, std::string unit, Pool& pool, Action action) const {
        WorkProgress bar = work(std::move(doing), std::move(unit));
        return action(
            LongWork{.pool = &pool, .told = [&bar](int64_t done, int64_t total) { bar.report(done, total); }});
    }
    // Prints a whole line, above the bar where there is one.
    void note(const std::string& line) { line_.note(line); }
    // A piece of text that comes bit by bit, after the last report.
    void text(std::string_view piece);
    // Ends the line of the bar; reports may follow and draw a new one.
    void finish() { line_.finish(); }
    [[nodiscard]] RunWatch& watch() { return *watch_; }

private:
    std::FILE* out_;
    bool is_terminal_;
    int64_t total_steps_;
    std::function<double()> now_;
    StatusLine line_;
    std::optional<double> validation_loss_;  // the last
    RunWatch unwatched_;
    RunWatch* watch_;
};

}  // namespace accrue
