#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "accrue/observe/status_line.h"

namespace accrue {

// Shows how far somebody is through many bytes: on a terminal a bar, elsewhere a plain line every few seconds, so that
// short work leaves none.
class ByteProgress {
public:
    // `doing` is the word in front, such as "tokenizing"; `now` a clock in seconds, from any point in time.
    ByteProgress(std::FILE* out, bool is_terminal, std::string doing, std::function<double()> now);

    void report(int64_t bytes_done, int64_t bytes_total);
    // Prints a whole line, above the bar where there is one.
    void note(const std::string& line) { line_.note(line); }
    // Takes the bar away; reports may follow and begin anew.
    void finish();
    // Since the first report.
    [[nodiscard]] double seconds() const;

private:
    std::FILE* out_;
    bool is_terminal_;
    std::string doing_;
    std::function<double()> now_;
    StatusLine line_;
    bool begun_ = false;
    double start_ = 0;
    double last_shown_ = 0;
};

}  // namespace accrue
