#pragma once

#include <cstdio>

#include "accrue/data/cache/token_cache.h"
#include "accrue/observe/work_progress.h"
#include "accrue/train/step.h"

namespace accrue {

// Thrown out of tokenizing when a signal asked to stop.
struct StoppedWhileTokenizing {};

// Tells on a terminal or in a pipe how far tokenizing is and what came of it.
class TokenizingReport {
public:
    explicit TokenizingReport(std::FILE* out);

    // For open_inputs() and the like, as long as this lives. Tokenizing ends with StoppedWhileTokenizing when `stop` is
    // set.
    [[nodiscard]] CacheProgressCallback callback(const StopFlag& stop);

private:
    void tell(const CacheProgress& progress);
    void tell_end(const CacheProgress& progress);

    WorkProgress bytes_;
    int64_t bytes_total_ = 0;
    bool told_to_wait_ = false;
};

}  // namespace accrue
