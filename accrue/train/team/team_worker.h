#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/dist/link.h"
#include "accrue/kernels/device_kind.h"

namespace accrue {

// What a worker is, besides what its run's leader says.
struct TeamWorkerOptions {
    std::string name;                   // of this process alone
    std::string address = "127.0.0.1";  // of this machine, where the other workers reach it
    // On a machine of its own: what it may use of it. Nothing, or 0: what the settings and the machine allow.
    std::optional<ByteSize> memory = {};
    int64_t threads = 0;
    std::optional<DeviceName> device = {};  // nothing: the run's, of a GPU the first here
    // What it was asked to train, where that must be what is led (TeamLeader::Options).
    std::string asked = {};
    // Held while others may take this worker's state: it should not end then.
    std::timed_mutex* stays = nullptr;
    // Is told what happens, a line each.
    std::function<void(const std::string& line)> note = [](const std::string&) {};
};

// The run is led anew, perhaps with other settings: whoever wants to go on joins again.
class LedAnew final : public Error {
public:
    LedAnew() : Error("the run's leader was started again") {}
};

// Computes for a run that is led elsewhere: its settings, model, weights and grains come over the link. Returns when the run
// has ended, with how; throws where it cannot go on.
enum class WorkEnd { done, stopped };
WorkEnd work_for_team(Link& link, const TeamWorkerOptions& options);

}  // namespace accrue
