#pragma once

#include <cstdint>
#include <string>

#include "accrue/dist/range_keepers.h"
#include "accrue/model/model_spec.h"
#include "accrue/train/settings.h"

namespace accrue {

// What a worker may use of the machine that it is on; bytes are of its device's memory.
struct WorkerShare {
    int64_t bytes = 0;
    int64_t threads = 0;  // 0 = all
    StateSharing sharing = {};
    std::string reason;  // for an error: why it is not more bytes
    // Of a GPU: whether sums are exchanged in its memory. Else they pass through the machine's (require_host_room()).
    bool exchanges_on_gpu = false;
};

// The settings by which a worker plans: within its share, of which an exchange with others keeps some. An Error if that is all.
// Only what changes no bit is decided here; all else is the same for every worker.
[[nodiscard]] Settings settings_within(const WorkerShare& share, Settings settings, const ModelSpec& model);

}  // namespace accrue
