#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "accrue/cli/launcher.h"
#include "accrue/train/generate.h"

namespace accrue {

// Exit codes of the program.
enum class ExitCode { done = 0, error = 1, wrong_use = 2, stopped = 3 };

struct TrainCommand {
    std::string settings_file;
    std::vector<std::string> overrides;
    std::string memory;  // "" = as the settings say
    std::string resume;
    bool overwrite = false;
    bool accept_other_bits = false;
    int64_t workers = 0;                // processes that compute; 0 = this one does
    std::string listen;                 // host:port where workers of other machines join; "" = none do
    bool goes_on = false;               // with the run in run.folder, where there is one
    std::optional<Launch> launch = {};  // as number 0 of which this process leads
    std::string health;                 // host:port where it says how it is; "" = nowhere
    std::string etcd;                   // by which several stand by to lead the run; "" = this one leads it
};
[[nodiscard]] ExitCode run_train(const TrainCommand& command);

struct SampleCommand {
    std::string folder;
    std::string prompt;
    SamplingSettings sampling;
    int64_t threads = 0;
    std::string device = "auto";
    bool chat = false;
    std::string chat_format;  // "" = the run's, or that of the model's own template
};
[[nodiscard]] ExitCode run_sample(const SampleCommand& command);

struct EvalCommand {
    std::string folder;
    std::vector<std::string> data;
    int64_t threads = 0;
    std::string device = "auto";
    std::string chat_format;  // "" = the run's, or that of the model's own template
};
[[nodiscard]] ExitCode run_eval(const EvalCommand& command);

struct InspectCommand {
    std::string path;
};
[[nodiscard]] ExitCode run_inspect(const InspectCommand& command);

struct ExportCommand {
    std::string source;
    std::string to;
    std::string dtype = "bf16";
    std::string output;
    bool overwrite = false;
};
[[nodiscard]] ExitCode run_export(const ExportCommand& command);

// A line for the person in front of the screen, not among the results, which may go into a file.
inline void warn(const std::string& line) {
    fmt::print(stderr, "{}\n", line);
}

// "accrue 0.1.0", the instruction set in use, what GPUs the program was built for, and those that are there.
[[nodiscard]] std::string version_text();

}  // namespace accrue
