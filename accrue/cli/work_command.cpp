#include "accrue/cli/work_command.h"

#include <csignal>
#include <cstdlib>

#include <sys/prctl.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/dist/grpc_link.h"
#include "accrue/train/team/team_worker.h"

namespace accrue {
namespace {

// Whoever started it ends it, also by dying; what a terminal or a service manager sends to all processes of a run is for the
// leader to follow, which saves the run and needs its workers for that.
void follow(int64_t parent) {
    if (parent == 0) {
        return;
    }
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN);
    std::signal(SIGTERM, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        throw Error(cat("process ", parent, ", which this worker belongs to, has ended."));
    }
}

ExitCode run_work(const WorkCommand& command) {
    follow(command.parent);
    const char* const token = std::getenv(kTokenVariable);
    GrpcLink link(
        {.address = command.join,
         .worker = command.name,
         .terms = {.program_version = program_version(), .run = command.run, .token = token == nullptr ? "" : token}});
    work_for_team(link, {.name = command.name});
    return ExitCode::done;
}

}  // namespace

std::string program_version() {
    return ACCRUE_VERSION;
}

CLI::App* add_work_command(CLI::App& app, WorkCommand& command, ExitCode& code) {
    auto* work = app.add_subcommand("work", "A worker of accrue train --workers, which starts it");
    work->group("");  // nobody has to start it by hand
    work->add_option("--join", command.join, "Where the run's leader listens")->required()->type_name("HOST:PORT");
    work->add_option("--name", command.name, "Of this worker alone")->required();
    work->add_option("--run", command.run, "The run's name")->required();
    work->add_option("--parent", command.parent, "The process that it ends with");
    work->callback([&] { code = run_work(command); });
    return work;
}

}  // namespace accrue
