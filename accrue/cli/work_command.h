#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

#include "accrue/cli/commands.h"

namespace accrue {

// `accrue work`: computes for a run that another process leads (`accrue serve`, `accrue train --workers`).
struct WorkCommand {
    std::string join;             // host:port of the leader
    std::string name;             // of this worker alone; "" = it makes one up
    std::string run;              // "" = whichever is led there
    std::string address;          // of this machine, for other workers; "" = from which it reaches the leader
    std::string memory;           // "" = what the settings and the machine allow
    std::string device = "auto";  // the run's; of a GPU the first here
    int64_t threads = 0;          // 0 = as the settings say
    std::string certificates;     // a folder; "" = none
    bool insecure_network = false;
    int64_t patience_seconds = 300;  // for the leader to be there
    int64_t parent = 0;              // ends with this process; 0 = with nobody
    bool joins = false;              // a run that is led for many machines, although it has a parent
    bool ends_with_run = false;      // once it takes part not by a signal, of which its leader is told, too
    bool is_quiet = false;           // whoever leads the run speaks on the same terminal
    std::string health;              // host:port where it says how it is; "" = nowhere
    std::string meeting;             // where its leader is found on this machine (local_meeting.h); "" = nowhere
    std::string asked;               // what this process was asked to train; "" = whatever is led
};

CLI::App* add_work_command(CLI::App& app, WorkCommand& command, ExitCode& code);

// Where leader and workers find the secret that lets them join; not among their words, which every user of the machine can read.
inline constexpr const char* kTokenVariable = "ACCRUE_WORKER_TOKEN";
// What both sides must agree on.
[[nodiscard]] std::string program_version();
// Of this machine; "" = it has none.
[[nodiscard]] std::string host_name();

}  // namespace accrue
