#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tests/soaking/disturbance.h"
#include "tests/soaking/traced_run.h"

namespace accrue::soaking {

// Every file below a folder with its contents; none for a folder that is not there.
using Files = std::map<std::string, std::string>;
[[nodiscard]] Files files_below(const std::filesystem::path& folder);

// A run as it must come out.
struct ExpectedRun {
    Files model;
    std::filesystem::path metrics;
};

// Each of these throws an Error that says what is wrong.

// Did the process end as it should after this? `folder` is where all its files lie.
void check_end(const Outcome& outcome, const Disturbance& disturbance, const std::filesystem::path& folder);

// What holds after any disturbance: whatever is there is whole, and what was there stays.
class RunWatch {
public:
    RunWatch(std::filesystem::path run, const ExpectedRun& expected);
    void look();

private:
    std::filesystem::path run_;
    const ExpectedRun& expected_;
    bool had_model_ = false;
    bool had_checkpoint_ = false;
};

// What holds at the end: same bits, each step once, and nothing half-written left in the run or beside it.
void check_results(const std::filesystem::path& run, const ExpectedRun& expected);
void check_nothing_left(const std::filesystem::path& run);

}  // namespace accrue::soaking
