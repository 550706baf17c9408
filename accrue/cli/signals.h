#pragma once

#include <filesystem>

#include "accrue/observe/run_watch.h"
#include "accrue/train/step.h"

namespace accrue {

// A closed pipe and a file beyond its size limit become errors of the writes, which know what to do, instead of a sudden
// end. For every command, at its start.
void turn_signals_into_errors();

// Set by the first Ctrl-C, SIGTERM or SIGHUP after this call; SIGHUP not where the program was started to survive it
// (nohup). A second Ctrl-C ends the program at once; further SIGTERMs and SIGHUPs do not, because supervisors and closing
// terminals send several.
[[nodiscard]] const StopFlag& stop_on_signals();

// For a process that whoever started it for a run leaves to the run's leader, which is told too and needs it to save the run.
void ignore_stop_signals();

// Ends the program as the signal would have that set the flag, for commands that cannot be continued.
[[noreturn]] void end_by_signal();

// While it lives, the first signal is answered with what happens now and how long it takes, and a second Ctrl-C with how
// to go on: on standard error, at once, whatever the program is doing.
class StopMessages {
public:
    explicit StopMessages(const RunWatch& watch);
    ~StopMessages();
    StopMessages(const StopMessages&) = delete;
    StopMessages& operator=(const StopMessages&) = delete;

    // From now on there is a run that can be continued.
    static void name_run(const std::filesystem::path& folder);
};

}  // namespace accrue
