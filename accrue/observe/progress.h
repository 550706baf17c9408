#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "accrue/observe/run_watch.h"
#include "accrue/observe/status_line.h"

namespace accrue {

// What a person wants to know while a run goes on.
struct ProgressFacts {
    int64_t step = 0;
    double loss = 0;
    std::optional<double> validation_loss;
    double tokens_per_second = 0;
    double updates_per_hour = 0;
    int64_t peak_bytes = 0;
    double seconds_left = 0;
};

// Shows how far a run is: on a terminal one line with a bar that is drawn again and again, elsewhere one plain line per
// report.
class Progress {
public:
    // `watch`, where one is given, is told what the run is doing; it must outlive this.
    Progress(std::FILE* out, bool is_terminal, int64_t total_steps, RunWatch* watch = nullptr);
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void report(const ProgressFacts& facts);
    // Prints a whole line, above the bar where there is one.
    void note(const std::string& line) { line_.note(line); }
    // Ends the line of the bar; reports may follow and draw a new one.
    void finish() { line_.finish(); }
    [[nodiscard]] RunWatch& watch() { return *watch_; }

private:
    std::FILE* out_;
    bool is_terminal_;
    int64_t total_steps_;
    StatusLine line_;
    RunWatch unwatched_;
    RunWatch* watch_;
};

}  // namespace accrue
