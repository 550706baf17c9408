#include "accrue/cli/team_training.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "accrue/cli/launched_workers.h"
#include "accrue/cli/remote_workers.h"
#include "accrue/cli/worker_processes.h"

namespace accrue {
namespace {

// For a run that nobody has led yet: that of the same name may have been removed.
int64_t first_term() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

template <class Workers>
TrainSummary train_by(Workers& workers, TeamLeader& leader, const RunInputs& inputs, RunClaim& claim,
                      Progress& progress, const StopFlag& stop, TrainOptions options) {
    options.team = &leader;
    try {
        const TrainSummary summary = train(inputs, claim, progress, stop, options);
        workers.close();  // while the leader is there to answer
        return summary;
    } catch (...) {
        workers.close();
        throw;
    }
}

// Who was told by another start of the leader what the run is belongs to another term.
Coordinator::Options coordinator_options(const TeamTraining& team, const Settings& settings, RunClaim& claim) {
    return {.term = claim.begin_term(team.term.value_or(first_term())),
            .silence_seconds = static_cast<double>(settings.workers.heartbeat_seconds),
            .least_workers = team.workers};
}

// By processes of this machine, which share it out.
TrainSummary train_by_processes(const TeamTraining& team, const RunInputs& inputs, RunClaim& claim, Progress& progress,
                                const StopFlag& stop, const TrainOptions& options) {
    const int64_t threads = Pool(static_cast<int>(inputs.settings.compute.threads)).threads();
    CoordinatorDesk desk(coordinator_options(team, inputs.settings, claim));
    WorkerProcesses processes(desk, claim.folder().root.string(), team.workers);
    TeamLeader leader(desk, processes,
                      {.workers = team.workers, .threads_each = std::max<int64_t>(1, threads / team.workers)});
    return train_by(processes, leader, inputs, claim, progress, stop, options);
}

// By whoever joins, on machines of their own: what is planned here is only what each of them plans again.
TrainSummary train_by_others(const TeamTraining& team, const RunInputs& inputs, RunClaim& claim, Progress& progress,
                             const StopFlag& stop, TrainOptions options) {
    constexpr int64_t kMoreThanAnyMachineHas = int64_t{1} << 50;
    options.memory = [] { return MemoryBound{.bytes = kMoreThanAnyMachineHas, .reason = "other machines compute"}; };
    GrpcServerOptions listening = team.listening.value();
    listening.terms.run = claim.folder().root.string();
    Coordinator::Options coordinator = coordinator_options(team, inputs.settings, claim);
    coordinator.gather_seconds = std::numeric_limits<double>::infinity();
    CoordinatorDesk desk(coordinator);
    if (team.launch) {
        LaunchedWorkers launched(desk, listening, *team.launch, team.own);
        TeamLeader leader(desk, launched,
                          {.workers = team.workers, .machines = TeamLeader::Machines::their_own, .asked = team.asked});
        return train_by(launched, leader, inputs, claim, progress, stop, options);
    }
    RemoteWorkers others(desk, std::move(listening), team.workers);
    TeamLeader leader(desk, others, {.workers = team.workers, .machines = TeamLeader::Machines::their_own});
    return train_by(others, leader, inputs, claim, progress, stop, options);
}

}  // namespace

TrainSummary train_by_team(const TeamTraining& team, const RunInputs& inputs, RunClaim& claim, Progress& progress,
                           const StopFlag& stop, TrainOptions options) {
    return team.listening ? train_by_others(team, inputs, claim, progress, stop, std::move(options))
                          : train_by_processes(team, inputs, claim, progress, stop, options);
}

}  // namespace accrue
