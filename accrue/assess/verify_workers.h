#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace accrue {

// How some windows of a run were computed by processes, and what the model was then.
struct ProcessesWay {
    enum class Outcome {
        reference,  // the one that all others are compared with
        same,       // the same file
        differs,    // another one, against the promise
        not_tried,  // nothing could be killed: the run was over too soon
    };
    std::string name;
    Outcome outcome = Outcome::same;
    std::string sha256 = {};  // of model.safetensors
    double seconds = 0;
    int64_t workers = 0;            // 0 = the run's own process computed
    int64_t lost_workers = 0;       // killed on the way
    int64_t grains_recomputed = 0;  // because of that
};

// What `accrue verify --workers` found.
struct ProcessesReport {
    std::string model;
    int64_t parameters = 0;
    int64_t workers = 0;
    int64_t from_step = 0;  // of the checkpoint that they began with; 0 = first weights
    int64_t windows = 0;
    int64_t grains = 0;  // of a window
    std::vector<ProcessesWay> ways = {};

    // The first way is the reference; what comes after is judged by it.
    void add(ProcessesWay way);
    // Whether nothing that was tried differs, and nothing is left untried.
    [[nodiscard]] bool holds() const;
};

// A report for people, at most 80 columns wide, in the order in which it becomes known.
[[nodiscard]] std::string processes_head(const ProcessesReport& report);
[[nodiscard]] std::string processes_line(const ProcessesWay& way);
[[nodiscard]] std::string processes_tail(const ProcessesReport& report);
// The same for programs.
[[nodiscard]] nlohmann::ordered_json to_json(const ProcessesReport& report);

}  // namespace accrue
