#include "accrue/cli/launcher.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

// Ports that nothing else is known to use, and of which each job of a cluster takes another.
constexpr int64_t kFirstPort = 29600;
constexpr int64_t kPorts = 2000;

int64_t number_in(const std::string& name, const std::string& text) {
    int64_t number = -1;
    const char* const end = text.data() + text.size();
    const auto [read_to, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || read_to != end || number < 0) {
        throw Error(cat("the variable ", name, " is \"", text, "\", where a number from 0 on was expected."));
    }
    return number;
}

// The variables of one launcher.
class Variables {
public:
    Variables(const Environment& environment, std::string launcher)
        : environment_(environment), launcher_(std::move(launcher)) {}

    [[nodiscard]] bool has(const std::string& name) const { return environment_(name).has_value(); }
    [[nodiscard]] std::string text(const std::string& name) const { return environment_(name).value_or(""); }
    [[nodiscard]] int64_t number(const std::string& name) const {
        const auto text = environment_(name);
        if (!text) {
            throw Error(cat(launcher_, " started this program, but has not set the variable ", name, "."));
        }
        return number_in(name, *text);
    }
    [[nodiscard]] int64_t number(const std::string& name, int64_t otherwise) const {
        return has(name) ? number(name) : otherwise;
    }
    // Which one this is of how many.
    [[nodiscard]] Launch launch(const std::string& rank, const std::string& size) const {
        Launch launch{.launcher = launcher_,
                      .job = {},
                      .rank = number(rank),
                      .size = number(size),
                      .local_size = 1,
                      .coordinator = {}};
        if (launch.rank >= launch.size) {
            throw Error(cat(launcher_, " says that this is number ", launch.rank, " (", rank, ") of ", launch.size,
                            " (", size, "), which cannot be."));
        }
        return launch;
    }

private:
    const Environment& environment_;
    std::string launcher_;
};

Error no_way_to_find_each_other(const std::string& launcher) {
    return Error(cat(launcher,
                     " has started this program on several machines, and does not say where its number 0 is. Set ",
                     kCoordinatorVariable,
                     "=HOST:PORT for all of them: the host that number 0 runs on, and a port that is "
                     "free there."));
}

// An IPv6 address stands in brackets then.
std::string host_and_port(const std::string& host, int64_t port) {
    const bool needs_brackets = host.find(':') != std::string::npos && !host.starts_with('[');
    return needs_brackets ? cat("[", host, "]:", port) : cat(host, ":", port);
}

// Of "host", "host:port", "[fd00::7]:port", or an IPv6 address alone.
std::string with_port(const std::string& text) {
    const bool is_ipv6 = text.starts_with('[') || std::ranges::count(text, ':') > 1;
    const bool has_port = is_ipv6 ? text.find("]:") != std::string::npos : text.find(':') != std::string::npos;
    return has_port ? text : host_and_port(text, kFirstPort);
}

// Of "2(x3),1": 2.
int64_t most_tasks_of_a_node(const std::string& list) {
    int64_t most = 1;
    std::istringstream parts(list);
    for (std::string part; std::getline(parts, part, ',');) {
        most = std::max(most, number_in("SLURM_STEP_TASKS_PER_NODE", part.substr(0, part.find('('))));
    }
    return most;
}

int64_t most_of_a_machine(const Variables& variables) {
    for (const char* name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
        if (variables.has(name)) {
            return std::max<int64_t>(1, variables.number(name));
        }
    }
    return most_tasks_of_a_node(variables.text("SLURM_STEP_TASKS_PER_NODE"));
}

// ---- one function for each launcher: nothing where it was not it

std::optional<Launch> by_user(const Environment& environment) {
    const Variables variables(environment, "your own script");
    if (!variables.has(kCoordinatorVariable)) {
        return std::nullopt;
    }
    const std::string coordinator = with_port(variables.text(kCoordinatorVariable));
    for (const auto& [rank, size] :
         {std::pair(kIdVariable, kWorkersVariable), std::pair("RANK", "WORLD_SIZE"),
          std::pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), std::pair("PMI_RANK", "PMI_SIZE"),
          std::pair("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), std::pair("JOB_COMPLETION_INDEX", kWorkersVariable)}) {
        if (variables.has(rank)) {
            Launch launch = variables.launch(rank, size);
            launch.local_size = most_of_a_machine(variables);
            launch.job = coordinator;
            launch.coordinator = coordinator;
            return launch;
        }
    }
    throw Error(cat("the variable ", kCoordinatorVariable,
                    " is set, but nothing says which one of the workers this is. Set ", kIdVariable,
                    " to 0, 1, 2 ... and ", kWorkersVariable, " to how many there are, or leave ", kCoordinatorVariable,
                    " out."));
}

// The agent of torchrun keeps the port that it names for itself.
std::optional<Launch> by_torchrun(const Environment& environment) {
    const Variables variables(environment, "torchrun");
    if (!variables.has("RANK") || !variables.has("WORLD_SIZE")) {
        return std::nullopt;
    }
    Launch launch = variables.launch("RANK", "WORLD_SIZE");
    const int64_t port = variables.number("MASTER_PORT", kFirstPort);
    launch.job = cat("torchrun-", variables.text("TORCHELASTIC_RUN_ID"), "-", port);
    launch.restarts = variables.number("TORCHELASTIC_RESTART_COUNT", 0);
    launch.local_size = variables.number("LOCAL_WORLD_SIZE", 1);
    if (launch.local_size == launch.size) {
        return launch;
    }
    if (!variables.has("MASTER_ADDR")) {
        throw no_way_to_find_each_other("torchrun");
    }
    const bool is_kept = variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
    launch.coordinator = host_and_port(variables.text("MASTER_ADDR"), port + (is_kept ? 1 : 0));
    return launch;
}

std::optional<Launch> by_open_mpi(const Environment& environment) {
    const Variables variables(environment, "mpirun");
    if (!variables.has("OMPI_COMM_WORLD_RANK")) {
        return std::nullopt;
    }
    Launch launch = variables.launch("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
    launch.job = cat("mpirun-", variables.text("PMIX_NAMESPACE"), variables.text("OMPI_MCA_ess_base_jobid"));
    launch.local_size = variables.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1);
    if (launch.local_size != launch.size) {
        throw no_way_to_find_each_other("mpirun");
    }
    return launch;
}

// Its batch scripts have most of these variables, too: only what srun starts there has those of a step.
std::optional<Launch> by_slurm(const Environment& environment) {
    const Variables variables(environment, "srun");
    if (!variables.has("SLURM_STEP_NUM_TASKS") || !variables.has("SLURM_PROCID")) {
        return std::nullopt;
    }
    Launch launch = variables.launch("SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
    const int64_t job = variables.number("SLURM_JOB_ID", 0);
    launch.job = cat("slurm-", job, ".", variables.text("SLURM_STEP_ID"));
    launch.local_size = most_tasks_of_a_node(variables.text("SLURM_STEP_TASKS_PER_NODE"));
    if (variables.number("SLURM_STEP_NUM_NODES", 1) > 1) {
        if (!variables.has("SLURM_STEP_NODELIST")) {
            throw no_way_to_find_each_other("srun");
        }
        launch.coordinator = cat(first_host_of(variables.text("SLURM_STEP_NODELIST")), ":", kFirstPort + job % kPorts);
    }
    return launch;
}

// MPICH and what descends from it. All on one machine have one parent.
std::optional<Launch> by_hydra(const Environment& environment) {
    const Variables variables(environment, "mpiexec");
    if (!variables.has("PMI_RANK") || !variables.has("PMI_SIZE")) {
        return std::nullopt;
    }
    Launch launch = variables.launch("PMI_RANK", "PMI_SIZE");
    launch.job = cat("mpiexec-", getppid());
    launch.local_size = variables.number("MPI_LOCALNRANKS", 1);
    if (launch.local_size != launch.size) {
        throw no_way_to_find_each_other("mpiexec");
    }
    return launch;
}

}  // namespace

std::optional<std::string> variable_of_process(const std::string& name) {
    const char* const text = std::getenv(name.c_str());
    return text == nullptr || *text == '\0' ? std::nullopt : std::optional<std::string>(text);
}

std::optional<Launch> launch_in(const Environment& environment) {
    for (const auto& launcher : {by_user, by_torchrun, by_open_mpi, by_slurm, by_hydra}) {
        if (const auto launch = launcher(environment)) {
            return launch->size > 1 ? launch : std::nullopt;
        }
    }
    return std::nullopt;
}

std::string first_host_of(const std::string& list) {
    const size_t end = list.find_first_of("[,");
    if (end == std::string::npos || list[end] == ',') {
        return list.substr(0, end);
    }
    const size_t number_end = list.find_first_of("-,]", end + 1);
    const size_t bracket = list.find(']', end);
    if (number_end == std::string::npos || bracket == std::string::npos) {
        throw Error(cat("the list of hosts \"", list, "\" cannot be read: a bracket is not closed."));
    }
    const size_t rest = std::min(list.find_first_of(",[", bracket), list.size());
    return cat(list.substr(0, end), list.substr(end + 1, number_end - end - 1),
               list.substr(bracket + 1, rest - bracket - 1));
}

}  // namespace accrue
