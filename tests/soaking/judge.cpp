#include "tests/soaking/judge.h"

#include <algorithm>
#include <csignal>
#include <sstream>
#include <utility>
#include <vector>

#include "tests/support.h"
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/observe/metric_table.h"
#include "accrue/train/settings.h"

namespace accrue::soaking {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string ended_text(int exit_code) {
    return exit_code > 128 ? cat("ended by signal ", exit_code - 128) : cat("ended with exit code ", exit_code);
}

std::string error_line(const std::string& output) {
    std::istringstream lines(output);
    std::string found;
    for (std::string line; std::getline(lines, line);) {
        found = line.starts_with("accrue: ") && line.find(" parameters, ") == std::string::npos ? line : found;
    }
    return found;
}

void check_error(const Outcome& outcome, const fs::path& folder) {
    const std::string error = error_line(outcome.output);
    if (error.find(folder.string()) == std::string::npos) {
        throw Error("the error names no file of the run");
    }
    if (error.find("unexpected error") != std::string::npos) {
        throw Error("the error is not one of ours");
    }
}

// Which hashes stand in the metrics follows from run.checkpoint_steps, which is free.
void drop_where_missing(const char* key, Json& one, Json& other) {
    if (!one.contains(key) || !other.contains(key)) {
        one.erase(key);
        other.erase(key);
    }
}

void check_metrics(const fs::path& found, const fs::path& expected) {
    const auto lines = testing::comparable_metrics(found, testing::MicroBatches::ignore);
    const auto wanted = testing::comparable_metrics(expected, testing::MicroBatches::ignore);
    for (size_t i = 0; i < std::min(lines.size(), wanted.size()); ++i) {
        Json line = Json::parse(lines[i]);
        Json other = Json::parse(wanted[i]);
        drop_where_missing(Metrics::kWeightsHash.name, line, other);
        if (line != other) {
            throw Error(cat(found.string(), ", line ", i + 1, " is ", line.dump(), " instead of ", other.dump()));
        }
    }
    if (lines.size() != wanted.size()) {
        throw Error(cat(found.string(), " has ", lines.size(), " lines instead of ", wanted.size()));
    }
}

bool is_leftover(const fs::path& path) {
    return path.extension() == ".partial" || path.extension() == ".replaced";
}

}  // namespace

Files files_below(const fs::path& folder) {
    Files files;
    if (fs::exists(folder)) {
        for (const auto& entry : fs::recursive_directory_iterator(folder)) {
            if (entry.is_regular_file()) {
                files[fs::relative(entry.path(), folder).string()] = read_text(entry.path());
            }
        }
    }
    return files;
}

void check_end(const Outcome& outcome, const Disturbance& disturbance, const fs::path& folder) {
    if (outcome.hung) {
        throw Error("it hung and had to be killed");
    }
    const auto expect = [&](const std::vector<int>& codes) {
        if (std::find(codes.begin(), codes.end(), outcome.exit_code) == codes.end()) {
            throw Error(cat("it ", ended_text(outcome.exit_code)));
        }
    };
    const bool may_fail = disturbance.kind == Kind::size_limit || disturbance.kind == Kind::small_disk;
    switch (outcome.landed || may_fail ? disturbance.kind : Kind::none) {
        case Kind::kill:
        case Kind::power_cut:
            expect({128 + SIGKILL});
            break;
        case Kind::stop:
        case Kind::hangup:
            expect({0, 3});  // 0: it was through before it looked
            break;
        case Kind::fault:
        case Kind::full_disk:
        case Kind::small_disk:
        case Kind::size_limit:
            expect({0, 1});  // 0: it could do without; what is missing shows at the end
            if (outcome.exit_code == 1) {
                check_error(outcome, folder);
            }
            break;
        case Kind::second:
            expect({0, 1});  // who was first goes on, the other one is refused
            break;
        case Kind::none:
        case Kind::freeze:
            expect({0});
            break;
    }
}

RunWatch::RunWatch(fs::path run, const ExpectedRun& expected) : run_(std::move(run)), expected_(expected) {}

void RunWatch::look() {
    if (fs::exists(run_ / "run.toml")) {
        (void)read_settings(run_ / "run.toml", {});
    }
    const bool has_model = fs::exists(run_ / "model");
    if (had_model_ && !has_model) {
        throw Error(cat(run_.string(), "/model was there and is gone"));
    }
    if (has_model) {
        const Files model = files_below(run_ / "model");
        for (const auto& [name, contents] : expected_.model) {
            if (!model.contains(name) || model.at(name) != contents) {
                throw Error(
                    cat(run_.string(), "/model/", name, model.contains(name) ? " is another one" : " is missing"));
            }
        }
    }
    const bool has_checkpoint = !list_checkpoints(run_ / "checkpoints").empty();
    if (had_checkpoint_ && !has_checkpoint) {
        throw Error(cat(run_.string(), "/checkpoints had a whole one, and has none now"));
    }
    had_model_ = has_model;
    had_checkpoint_ = has_checkpoint;
}

void check_results(const fs::path& run, const ExpectedRun& expected) {
    if (files_below(run / "model") != expected.model) {
        throw Error(cat(run.string(), "/model has other bytes than an undisturbed run's"));
    }
    check_metrics(run / "metrics.jsonl", expected.metrics);
    if (!fs::exists(run / "report.html")) {
        throw Error(cat(run.string(), "/report.html is missing"));
    }
}

void check_nothing_left(const fs::path& run) {
    for (const auto& entry : fs::recursive_directory_iterator(run.parent_path())) {
        if (is_leftover(entry.path())) {
            throw Error(cat(entry.path().string(), " was left over"));
        }
    }
}

}  // namespace accrue::soaking
