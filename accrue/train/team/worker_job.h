#pragma once

#include <cstdint>
#include <memory>

#include <nlohmann/json.hpp>

#include "accrue/dist/range_keepers.h"
#include "accrue/model/model_spec.h"
#include "accrue/train/settings.h"
#include "accrue/train/team/team_worker.h"

namespace accrue {

// What the leader says of a run, as it is for one worker: with the device and the share of its memory that this one computes with.
struct WorkerJob {
    WorkerJob(const nlohmann::ordered_json& words, const TeamWorkerOptions& options);

    int64_t term;
    Settings settings;
    Settings to_plan;
    StateSharing sharing;
    bool computes_on_gpus;  // the run does; a guest may not
    bool exchanges_on_gpu;  // where its device is one
    int64_t longest;
    std::shared_ptr<const ModelSpec> model;

private:
    [[nodiscard]] Settings on_this_machine(Settings of_run, const TeamWorkerOptions& options) const;
};

}  // namespace accrue
