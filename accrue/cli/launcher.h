#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace accrue {

// What a launcher that started this program several times over says of it: mpirun, srun, torchrun, Kubernetes, or a user's own
// script. Who leads and where follows from it; who computes what, the run's coordinator decides.
struct Launch {
    std::string launcher;  // for people: "srun"
    std::string job;       // the same for all that were started together, and for no others on this machine
    int64_t rank = 0;      // 0 leads, and computes too
    int64_t size = 1;
    int64_t restarts = 0;    // so often all of them were started again, because one had failed
    int64_t local_size = 1;  // of them on this machine, as far as the launcher says
    // Where rank 0 listens, host:port. Empty: all are on one machine, and meet there.
    std::string coordinator;
};

// A variable of the environment; nothing if it is not set, or empty.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
[[nodiscard]] std::optional<std::string> variable_of_process(const std::string& name);

// Nothing where no launcher, or one that started this program once. An Error where what it says cannot be, or where ranks on several
// machines have no way to find each other.
[[nodiscard]] std::optional<Launch> launch_in(const Environment& environment);

// The first host of a list as Slurm writes it: "node[07-09,12],login" -> "node07".
[[nodiscard]] std::string first_host_of(const std::string& list);

// The variables by which a user says it himself: host:port of the leader, who this is (0 leads), of how many.
inline constexpr const char* kCoordinatorVariable = "ACCRUE_COORDINATOR";
inline constexpr const char* kIdVariable = "ACCRUE_ID";
inline constexpr const char* kWorkersVariable = "ACCRUE_WORKERS";

}  // namespace accrue
