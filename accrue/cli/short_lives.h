#pragma once

#include <cstdint>

namespace accrue {

// Of workers that are started again when they are killed: one that is killed soon after its start, and the next ones too, will be
// killed again, for lack of memory say, and a run that went on so would never end.
class ShortLives {
public:
    static constexpr double kShortSeconds = 20;
    static constexpr int64_t kMostInARow = 4;

    // A worker has been killed by that signal, so long after its start. An Error where nobody should start another.
    void note_killed(int signal, double seconds_lived);

private:
    int64_t in_a_row_ = 0;
};

}  // namespace accrue
