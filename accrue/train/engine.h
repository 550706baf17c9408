#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "accrue/accumulate/gradient_sum.h"
#include "accrue/accumulate/loss_scale.h"
#include "accrue/accumulate/window.h"
#include "accrue/accumulate/window_record.h"
#include "accrue/dist/range_keepers.h"
#include "accrue/kernels/device.h"
#include "accrue/model/model_spec.h"
#include "accrue/optim/optimizer.h"
#include "accrue/optim/schedule.h"
#include "accrue/train/loader.h"
#include "accrue/train/settings.h"

namespace accrue {

// What a run computes with: device, model, weights, sums, optimizer. All memory comes from the kernels' arena, in a
// fixed order, so that the same engine on a dry arena counts what a real one will take. The settings say what of it comes
// from the arena's piece on the host: the same operations compute there, in the same order, so that no bit depends on it.
struct Engine {
    Engine(const Settings& settings, const std::shared_ptr<const ModelSpec>& model_spec, int64_t longest_sample,
           Kernels& kernels);
    // The same with other choices than those of the settings from the start.
    Engine(const Settings& settings, std::shared_ptr<const ModelSpec> model_spec, int64_t longest_sample,
           Kernels& kernels, const Choices& choices);
    // The same where workers share the moments out and, beside a copy in bf16 or fp16, the fp32 weights.
    Engine(const Settings& settings, std::shared_ptr<const ModelSpec> model_spec, int64_t longest_sample,
           Kernels& kernels, const Choices& choices, const StateSharing& sharing);

    Kernels& kernels;
    std::shared_ptr<const ModelSpec> spec;
    std::unique_ptr<Model> model;
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
        // Good windows in a row after which the loss scale doubles; 0 = losses are not scaled: only fp16 needs it.
        int64_t loss_scale_steps = 0;

        // Must the counted tokens of a window be known before its rate and its beta2 are?
        [[nodiscard]] bool need_tokens_of(const Window& taken) const;
        // The peak rate of a window that counts so many tokens: a short one's follows its own size.
        [[nodiscard]] double rate_of(const Window& taken, int64_t counted_tokens) const;
        [[nodiscard]] double beta2_of(int64_t counted_tokens) const;
    } rules;

    // What a run is between two steps, besides weights and moments.
    struct State {
        int64_t step = 0;  // windows taken, skipped ones too
        DataPosition position;
        Units units;  // from the last applied step; empty before the first
        int64_t skipped_in_a_row = 0;
        int64_t tokens = 0;                     // counted so far
        LossScale loss_scale = {};              // of the next window, or of the one that is open
        std::optional<WindowRecord> open = {};  // the window whose grains the sums hold, before its update
    } state;

    // The record of the next window, with the units of the last applied step: none before the first one. The counted tokens
    // must be given where the rules need them.
    [[nodiscard]] WindowRecord record_of(const Window& window, std::optional<int64_t> counted_tokens) const;
    // Begins a window, or begins it again: zero sums, no grain finished.
    void open(WindowRecord record);
    // Grains in the sums of the window that is open; 0 if none is.
    [[nodiscard]] int64_t finished_grains() const;

    // Between any two micro-batches: what to keep and what to recompute. Takes or gives back the copy of the weights.
    void choose(const Choices& choices);

    // As the model reads them.
    [[nodiscard]] Weights weights_to_read() const;
    // Do workers share the fp32 weights that only products read? Then there is always a copy, and of the fp32 what WeightBuffers say.
    [[nodiscard]] bool shares_master() const { return !places_.by_parameter.empty(); }
    // The fp32 weights that are here, as they lie: all in one piece or, where workers share them, tensor by tensor.
    struct MasterPiece {
        static constexpr int64_t kEverywhere = -1;
        int64_t first = 0;  // among the flat weights
        View<float> values;
        int64_t range = kEverywhere;  // otherwise kept because of it
    };
    [[nodiscard]] std::vector<MasterPiece> masters() const;
    // All of a parameter's; empty = it is shared.
    [[nodiscard]] View<float> master_of(int64_t parameter) const;
    // After the master changed by other means than the optimizer: renews the copy, of what is here.
    void refresh_copy();
    // What stochastic rounding in the window that comes next depends on, besides grain, tensor and element.
    [[nodiscard]] uint64_t rounding_seed() const;
    // The fp32 master, on its way out, if all of it is here; and where it comes in, as far as it is here: refresh_copy() must
    // follow.
    [[nodiscard]] ByteSource weights_source() const;
    [[nodiscard]] PutWeights put_weights() const;
    // A checksum of all weights, gaps left out: of the fp32 ones or, where they are shared, of what forward reads.
    [[nodiscard]] std::string weights_hash() const;

private:
    DType dtype_;
    MasterPlaces places_;  // empty = the master is whole
    Leased<float> master_;
    Leased<float> kept_;
    LeasedAny copy_;
};

// Flat weights on a device.
[[nodiscard]] PutWeights put_into(Kernels& kernels, View<float> flat);

// What the settings say about the device.
[[nodiscard]] DeviceChoice device_of(const Settings::Compute& compute);

// How large the settings want windows; window.grain_samples must be resolved.
[[nodiscard]] WindowSize window_size_of(const Settings::Window& settings);

// What the settings say about recomputing, for a model of so many blocks. Where they leave it open, nothing.
[[nodiscard]] Choices choices_of(const Settings& settings, int64_t blocks);

// Grains per micro-batch when the settings leave it open: enough rows to keep the device busy.
[[nodiscard]] int64_t default_micro_batch_grains(const Settings& settings, int64_t longest_sample, int threads);

}  // namespace accrue
