#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accrue {

// What a status line shows.
struct StatusFacts {
    std::vector<std::string> texts;  // short ones, the most wanted first; those behind that do not fit are left out
    double done = 0;                 // from 0 to 1
};

// Writes at once what only a person watches. That nobody can read it (a closed pipe or terminal, a full disk under a log)
// is no reason to stop working: it is dropped.
void show(std::FILE* out, std::string_view text);

// One line with a bar at the bottom of a terminal that is drawn again and again.
class StatusLine {
public:
    explicit StatusLine(std::FILE* out) : out_(out) {}

    void draw(StatusFacts facts);
    // Prints a whole line, above the bar where there is one.
    void note(const std::string& line);
    // Ends the line of the bar, which stays to be seen.
    void finish();
    // Takes the bar away.
    void clear();

private:
    void draw_shown();

    std::FILE* out_;
    std::optional<StatusFacts> shown_;
};

// 950, 12.3k, 4.56M
[[nodiscard]] std::string short_number(double value);
// 59s, 1m 20s, 2h 01m; ? for what nobody can know yet
[[nodiscard]] std::string short_duration(double seconds);

}  // namespace accrue
