#include "accrue/cli/work_command.h"

#include <array>
#include <csignal>
#include <cstdlib>

#include <sys/prctl.h>
#include <unistd.h>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/cli/device_option.h"
#include "accrue/cli/join_run.h"
#include "accrue/cli/listening.h"
#include "accrue/dist/grpc_link.h"
#include "accrue/train/team/gpu_share.h"
#include "accrue/train/team/team_worker.h"

namespace accrue {
namespace {

// Whoever started it ends it, also by dying; what a terminal or a service manager sends to all processes of a run is for the
// leader to follow, which saves the run and needs its workers for that.
void follow(int64_t parent) {
    ignore_stop_signals();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        throw Error(cat("process ", parent, ", which this worker belongs to, has ended."));
    }
}

// A worker of accrue train --workers, which looks after it.
ExitCode work_for_parent(const WorkCommand& command) {
    follow(command.parent);
    GrpcLink link(
        {.address = command.join,
         .worker = command.name,
         .terms = {.program_version = program_version(), .run = command.run, .token = token_of_environment()}});
    work_for_team(link, {.name = command.name});
    return ExitCode::done;
}

ExitCode work_as_asked(WorkCommand command) {
    if (std::getenv(kTestSharedNccl) != nullptr) {
        // NCCL refuses two of one machine on one GPU.
        ::setenv("NCCL_HOSTID", cat("accrue-", getpid()).c_str(), 0);
    }
    if (command.parent == 0) {
        return join_run(command);
    }
    if (!command.joins) {
        return work_for_parent(command);
    }
    follow(command.parent);
    command.ends_with_run = true;
    return join_run(command);
}

// As compute.memory takes it.
CLI::Validator byte_size() {
    return {[](const std::string& text) {
                return parse_byte_size(text) ? std::string() : cat(text, " is no size, such as 16GiB");
            },
            ""};
}

}  // namespace

std::string program_version() {
    return ACCRUE_VERSION;
}

std::string host_name() {
    std::array<char, 256> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

CLI::App* add_work_command(CLI::App& app, WorkCommand& command, ExitCode& code) {
    auto* work = app.add_subcommand("work", "Compute for a run that accrue serve leads, on this machine or another");
    work->add_option("--join", command.join,
                     "Where accrue serve listens; where several stand by (--etcd), all, with commas between")
        ->required()
        ->type_name("ADDRESS:PORT");
    work->add_option(
            "--memory", command.memory,
            "The most this worker may hold: 16GiB; without, what the run's compute.memory or the machine allows")
        ->type_name("SIZE")
        ->check(byte_size());
    work->add_option("--device", command.device,
                     "Which GPU of this machine, where the run computes on GPUs; auto = the first")
        ->capture_default_str()
        ->check(device_or_auto());
    work->add_option("--threads", command.threads, "Of this worker; 0 = as the run's compute.threads says, or all")
        ->capture_default_str()
        ->check(CLI::Range(0, 4096));
    work->add_option("--address", command.address,
                     "Of this machine, where other workers reach it; without, that from which it reaches the leader")
        ->type_name("ADDRESS");
    work->add_option("--certificates", command.certificates,
                     "A folder with ca.pem, worker.pem and worker.key, of accrue serve --make-certificates")
        ->type_name("FOLDER");
    work->add_flag("--insecure-network", command.insecure_network, "Without certificates, talk in clear to the leader");
    work->add_option("--patience", command.patience_seconds, "Seconds to wait for the leader to be there")
        ->capture_default_str()
        ->check(CLI::Range(1, 1'000'000));
    work->add_option("--health", command.health,
                     "Answer GET /health there: status 200 while it takes part in a run, 503 while it waits for one")
        ->type_name("ADDRESS:PORT");
    work->add_option("--run", command.run, "Take part in this run only; without, in whichever is led there");
    work->add_option("--name", command.name, "Of this worker alone; without, it makes one up");
    work->add_option("--parent", command.parent)->group("");
    work->add_flag("--joins", command.joins)->group("");
    work->footer(cat("The join token, where the leader has one, comes from the environment: ", kTokenVariable,
                     ".\nCtrl-C, SIGTERM or SIGHUP: it leaves, and others compute what was begun here. It may come and "
                     "go at any time.\nExit code 0: the run has ended, or it has left."));
    work->callback([&] { code = work_as_asked(command); });
    return work;
}

}  // namespace accrue
