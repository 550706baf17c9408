#include "accrue/cli/short_lives.h"

#include "accrue/base/error.h"

namespace accrue {

void ShortLives::note_killed(int signal, double seconds_lived) {
    in_a_row_ = seconds_lived < kShortSeconds ? in_a_row_ + 1 : 0;
    if (in_a_row_ == kMostInARow) {
        throw Error(cat("workers are killed again and again soon after their start (the last one by signal ", signal,
                        "; signal 9 often means that the machine ran out of memory). Take fewer workers, or less "
                        "memory for each (compute.memory), and go on with accrue train --resume."));
    }
}

}  // namespace accrue
