#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "accrue/observe/status_line.h"

namespace accrue {

// Shows how far somebody is through long work: on a terminal a bar from the start, elsewhere a plain line after a second
// and then every few, so that short work leaves none.
class WorkProgress {
public:
    // `doing` is the word in front, such as "tokenizing"; `unit` what is counted: "bytes", or a word such as "samples";
    // `now` a clock in seconds, from any point in time.
    WorkProgress(std::FILE* out, bool is_terminal, std::string doing, std::string unit, std::function<double()> now);
    ~WorkProgress() { finish(); }
    WorkProgress(const WorkProgress&) = delete;
    WorkProgress& operator=(const WorkProgress&) = delete;

    void report(int64_t done, int64_t total);
    // Prints a whole line, above the bar where there is one.
    void note(const std::string& line) { line_.note(line); }
    // Takes the bar away; reports may follow and begin anew.
    void finish();
    // Since the first report.
    [[nodiscard]] double seconds() const;

private:
    [[nodiscard]] StatusFacts facts_of(int64_t done, int64_t total, double seconds) const;

    std::FILE* out_;
    bool is_terminal_;
    std::string doing_;
    std::string unit_;
    std::function<double()> now_;
    StatusLine line_;
    bool begun_ = false;
    double start_ = 0;
    double next_shown_ = 0;
};

}  // namespace accrue
