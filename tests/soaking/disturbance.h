#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/soaking/dice.h"

namespace accrue::soaking {

// What may happen to a process.
enum class Kind {
    none,
    kill,        // SIGKILL
    power_cut,   // SIGKILL, and what was not synced is lost
    stop,        // SIGTERM or SIGINT
    hangup,      // SIGHUP
    freeze,      // SIGSTOP, then SIGCONT
    fault,       // one system call fails
    full_disk,   // from one system call on, all that need room fail
    small_disk,  // a file system with little room
    size_limit,  // a limit on the size of a file
    second,      // another process resumes the same run
};

[[nodiscard]] std::string name_of(Kind kind);
[[nodiscard]] const std::vector<Kind>& all_kinds();
// The kind of that name; an error that says which there are.
[[nodiscard]] Kind kind_named(const std::string& name);

// Is it a signal that can arrive at any moment?
[[nodiscard]] bool is_signal(Kind kind);

// When and how. Calls that change files are counted, or all calls.
struct Disturbance {
    Kind kind = Kind::none;
    int64_t call = 0;  // it happens before the call of this number, from 1
    bool every_call_counts = false;
    int signal = 0;          // of a stop or hangup
    uint64_t pick = 0;       // which error, how much is lost
    int64_t room_bytes = 0;  // small_disk: beyond what is used; size_limit: of a file
    double moment = 0;       // where calls can't be counted: after this part of an undisturbed run's time
};

// What is known of the job from its undisturbed run.
struct JobSize {
    int64_t changes = 0;  // calls that changed files
    int64_t bytes = 0;    // of all files it wrote
    int64_t largest_file = 0;
    double seconds = 0;
};

[[nodiscard]] Disturbance draw_disturbance(Dice& dice, const std::vector<Kind>& kinds, const JobSize& size);

[[nodiscard]] std::string text_of(const Disturbance& disturbance);

}  // namespace accrue::soaking
