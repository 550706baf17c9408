#pragma once

#include <cstdint>
#include <optional>

#include "accrue/cli/launcher.h"
#include "accrue/cli/work_command.h"
#include "accrue/dist/grpc_options.h"
#include "accrue/train/trainer.h"

namespace accrue {

// Who computes a run that this process leads.
struct TeamTraining {
    int64_t workers = 0;  // so many are started, or waited for before the first window; 0 = this process computes
    // Workers join there; nothing: they are processes of this machine, which share it out.
    std::optional<GrpcServerOptions> listening = {};
    // A launcher started them, and this process with them.
    std::optional<Launch> launch = {};
    std::string asked = {};            // what all of those must have been asked
    WorkCommand own = {};              // of those, the worker beside this process
    std::optional<int64_t> term = {};  // higher than that of all who led the run before; nothing: it is found
};

// train() by workers.
[[nodiscard]] TrainSummary train_by_team(const TeamTraining& team, const RunInputs& inputs, RunClaim& claim,
                                         Progress& progress, const StopFlag& stop, TrainOptions options);

}  // namespace accrue
