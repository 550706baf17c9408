#pragma once

#include <string>

#include "accrue/dist/link.h"

namespace accrue {

// What a worker is, besides what its run's leader says.
struct TeamWorkerOptions {
    std::string name;                   // of this process alone
    std::string address = "127.0.0.1";  // of this machine, where the other workers reach it
};

// Computes for a run that is led elsewhere: its settings, model, weights and grains come over the link. Returns when the run
// has ended; throws where it cannot go on.
void work_for_team(Link& link, const TeamWorkerOptions& options);

}  // namespace accrue
