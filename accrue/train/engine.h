#pragma once

#include <memory>
#include <vector>

#include "accrue/accumulate/gradient_sum.h"
#include "accrue/accumulate/window.h"
#include "accrue/model/decoder.h"
#include "accrue/optim/optimizer.h"
#include "accrue/optim/schedule.h"
#include "accrue/train/loader.h"
#include "accrue/train/settings.h"

namespace accrue {

// What a run computes with: device, model, weights, sums, optimizer. All memory comes from the kernels' arena, in a
// fixed order, so that the same engine on a dry arena counts what a real one will take.
struct Engine {
    Engine(const Settings& settings, const ModelConfig& config, int64_t longest_sample, Kernels& kernels);
    // The same with other choices than those of the settings from the start.
    Engine(const Settings& settings, const ModelConfig& config, int64_t longest_sample, Kernels& kernels,
           const Choices& choices);

    Kernels& kernels;
    Decoder model;
    WeightBuffers weights;
    GradientSum sum;
    std::unique_ptr<Optimizer> optimizer;

    // Settings in the form a step uses them.
    struct Rules {
        WindowSize window;
        int64_t micro_batch_grains = 1;
        Schedule schedule;
        double rate = 0;  // the peak, after scaling to a whole window
        // What it was scaled from, for short windows.
        struct TunedRate {
            double rate = 0;
            RateRule rule = RateRule::none;
            int64_t samples = 0;        // 0 = the rate is taken as it is
            int64_t sample_tokens = 1;  // of a sample of full length
        } tuned;
        double beta2 = 0;
        double beta2_half_life_tokens = 0;
        double clip_norm = 0;
        uint64_t rounding_seed = 0;  // of stochastic sums

        // The peak rate of a window that counts so many tokens: a short one's follows its own size.
        [[nodiscard]] double rate_of(const Window& taken, int64_t counted_tokens) const;
    } rules;

    // What a run is between two steps, besides weights and moments.
    struct State {
        int64_t step = 0;  // windows taken, skipped ones too
        DataPosition position;
        Units units;  // from the last applied step; empty before the first
        int64_t skipped_in_a_row = 0;
        int64_t tokens = 0;        // counted so far
        int64_t replays = 0;       // of the window that is open
        bool window_open = false;  // sums hold some grains of the next window
    } state;

    // Between any two micro-batches: what to keep and what to recompute. Takes or gives back the copy of the weights.
    void choose(const Choices& choices);

    // As the model reads them.
    [[nodiscard]] Weights weights_to_read() const;
    // After the master changed by other means than the optimizer: renews the copy.
    void refresh_copy();
    // What stochastic rounding in the next window depends on, besides grain, tensor and element.
    [[nodiscard]] uint64_t rounding_seed() const;
    // A checksum of all weights, gaps left out.
    [[nodiscard]] std::string weights_hash() const;

private:
    DType dtype_;
    Leased<float> master_;
    LeasedAny copy_;
};

// How large the settings want windows; window.grain_samples must be resolved.
[[nodiscard]] WindowSize window_size_of(const Settings::Window& settings);

// What the settings say about recomputing, for a model of so many layers. Where they leave it open, nothing.
[[nodiscard]] Choices choices_of(const Settings& settings, int64_t layers);

// Grains per micro-batch when the settings leave it open: enough for 1,024 rows, with many threads for 256 of each.
[[nodiscard]] int64_t default_micro_batch_grains(const Settings& settings, int64_t longest_sample, int threads);

}  // namespace accrue
