#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/dist/range_keepers.h"
#include "accrue/kernels/part.h"
#include "accrue/model/model_spec.h"
#include "accrue/train/settings.h"

namespace accrue {

// How fast a machine does the parts of a step.
struct Rates {
    std::array<double, kParts> flops{};  // a second, of each part
    std::array<double, kParts> bytes{};  // a second, of each part
    double micro_batch_seconds = 0;  // that each takes beside: gaps between kernels, the first and last tiles of each
    double bus_bytes = 0;            // a second, between a GPU and the host's memory, each way; 0 = nothing lies there

    // Figures of an ordinary processor or GPU. They put plans in the right order; how long a step takes must be measured.
    [[nodiscard]] static Rates typical(const Settings& settings, int threads);
};

// What the arena of a plan holds at its peak and between steps; sums and moments, wherever they lie.
struct ArenaParts {
    int64_t weights = 0;
    int64_t copy = 0;  // of the weights, in bf16
    int64_t sums = 0;
    int64_t moments = 0;
    int64_t waiting = 0;  // gradients of grains, to be added in one pass
    int64_t tables = 0;
    int64_t device = 0;           // what the device keeps for itself
    std::vector<int64_t> blocks;  // what forward keeps of each for backward
    int64_t batch = 0;            // tokens, the stream, what waits for a tied embedding
    int64_t loss = 0;             // logits and their gradient
    int64_t workspace = 0;        // the largest that one kernel takes
};

// One way to run a job. All plans of a job give the same bits; they differ in memory and time.
struct Plan {
    Choices choices;
    int64_t micro_batch_grains = 1;
    int64_t resident_bytes = 0;  // of the arena, between steps
    int64_t arena_bytes = 0;     // of the arena, at its peak: one micro-batch of the longest samples
    int64_t host_bytes = 0;      // beside it in the host's memory: state that lies there
    ArenaParts parts;
    WorkByPart work{};  // of one micro-batch and an update
    // What goes over the bus because state lies on the host, by the busier way.
    struct BusBytes {
        double micro_batch = 0;
        double update = 0;
    } bus;

    // Of a window of so many grains: its micro-batches and one update.
    [[nodiscard]] double window_seconds(double grains, const Rates& rates) const;
    [[nodiscard]] int64_t blocks_with(Recompute recompute) const;
};

// "nothing recomputed"; "16 of 24 blocks recomputed, the loss 128 rows at a time, weights converted per tile".
[[nodiscard]] std::string text_of(const Plan& plan);

// What lies in the machine's memory: "sums and moments"; "" = nothing.
[[nodiscard]] std::string_view text_of(HostState state);

// Finds plans by running the real step on a device that computes nothing, one for each plan.
class Planner {
public:
    // `settings` with window.grain_samples resolved. What they fix (compute.recompute, window.micro_batch_grains) is
    // fixed in every plan.
    Planner(const Settings& settings, const std::shared_ptr<const ModelSpec>& model, int64_t longest_sample,
            int threads, const StateSharing& sharing = {});
    ~Planner();

    [[nodiscard]] Plan plan_of(const Choices& choices, int64_t micro_batch_grains);
    // What a run does when memory is no concern: nothing is computed again, about 1,024 rows at a time (or the window).
    [[nodiscard]] Plan unlimited();
    // The plans that no other beats in both memory and time, fastest first.
    [[nodiscard]] std::vector<Plan> frontier(const Rates& rates);
    // Mean grains of a window; where the window is given in tokens, those of full samples.
    [[nodiscard]] double window_grains() const { return window_grains_; }
    [[nodiscard]] int64_t window_tokens() const { return window_tokens_; }
    [[nodiscard]] const Settings& settings() const { return settings_; }
    [[nodiscard]] const std::shared_ptr<const ModelSpec>& model() const;
    [[nodiscard]] int64_t longest_sample() const { return longest_sample_; }
    [[nodiscard]] int threads() const { return threads_; }
    [[nodiscard]] DeviceName device() const;
    // Bytes outside of the arena that grow with the run: what is known of each grain, batches on their way, the report.
    [[nodiscard]] int64_t host_bytes(int64_t micro_batch_grains) const;
    // The part of it that grows with the window: a record of each grain and tensor.
    [[nodiscard]] int64_t record_bytes() const;

private:
    struct Dry;

    [[nodiscard]] std::vector<std::vector<Recompute>> block_choices() const;
    [[nodiscard]] std::vector<int64_t> micro_batch_choices() const;
    [[nodiscard]] std::vector<int64_t> waiting_choices() const;
    void note_common_adds(Plan& plan) const;
    void note_bus(Plan& plan) const;
    [[nodiscard]] std::vector<Choices> choices_beside_blocks() const;

    std::unique_ptr<Dry> dry_;
    Settings settings_;
    int64_t longest_sample_;
    int64_t blocks_;
    int threads_;
    double window_grains_ = 0;
    int64_t window_tokens_ = 0;
};

// What a run will take from its arena, found by running the real step on a device that computes nothing.
struct ArenaPlan {
    int64_t resident_bytes = 0;  // weights, copy, sums, moments, tables
    int64_t peak_bytes = 0;      // with one micro-batch of the longest samples, an update and an evaluation
    int64_t host_bytes = 0;      // beside it: state in the host's memory
    int64_t flops = 0;           // of that micro-batch, its probe and the update
};

[[nodiscard]] ArenaPlan plan_arena(const Settings& settings, const std::shared_ptr<const ModelSpec>& model,
                                   int64_t longest_sample, int threads);
// The same with other choices than those of the settings.
[[nodiscard]] ArenaPlan plan_arena(const Settings& settings, const std::shared_ptr<const ModelSpec>& model,
                                   int64_t longest_sample, int threads, const Choices& choices);

}  // namespace accrue
