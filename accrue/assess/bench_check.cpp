#include <algorithm>
#include <cmath>

#include "accrue/assess/bench.h"
#include "accrue/base/error.h"
#include "accrue/base/random.h"
#include "accrue/kernels/device.h"
#include "accrue/train/engine.h"
#include "accrue/train/planner.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/step.h"

namespace accrue {
namespace {

// Longer than a tile of attention (64), so that both kinds of tiles are seen.
constexpr int64_t kTokens = 72;
constexpr int64_t kWords = 2048;
// A second block shows that the gradient goes on through the first; where one is wide the reference has no time for it.
constexpr int64_t kFewParameters = 12'000'000;

// The rounding of bf16 is 0.4% at most and some of it cancels; a wrong term shows as tens of percent.
constexpr double kAllowedBf16 = 0.03;
constexpr double kAllowedFp32 = 1e-4;

// Sums with a second bf16 for what rounding lost are as good as fp32 here. fp16 rounds less where nothing is very small.
bool rounds_to_bf16(const BenchRequest& request) {
    return request.dtype != DType::fp32 || request.sums == SumKind::bf16 || request.sums == SumKind::bf16_stochastic;
}

// A tensor whose gradient is next to nothing is all rounding: it is measured against the largest one.
constexpr double kSmallest = 1e-3;

// The parts of the model that all sizes of it share.
std::shared_ptr<const ModelSpec> cut_model(const BenchRequest& request) {
    const auto model = bench_model(request);
    auto one_block = model->at_most({.blocks = 1, .vocabulary = kWords});
    const bool is_small = one_block->parameters().elements() < kFewParameters;
    return is_small ? model->at_most({.blocks = 2, .vocabulary = kWords}) : one_block;
}

using Gradients = std::vector<std::vector<double>>;

Gradients gradients_of(const Settings& settings, const std::shared_ptr<const ModelSpec>& model, const Choices& choices,
                       Kernels& kernels) {
    const int64_t tokens = settings.data.sequence_length;
    Engine engine(settings, model, tokens, kernels, choices);
    initialize_weights(engine.model->parameters(), 1, engine.put_weights());
    engine.refresh_copy();
    std::vector<int32_t> words;
    for (int64_t i = 0; i <= tokens; ++i) {
        words.push_back(
            static_cast<int32_t>(mix(2, static_cast<uint64_t>(i)) % static_cast<uint64_t>(model->vocabulary())));
    }
    const auto data = dataset_of_tokens(words, tokens, "random words");
    const Loader loader(*data, SampleOrder(SampleOrder::Kind::sequential, 1, data->size()));
    const StopFlag never{false};
    // The sums still hold the gradient after the step.
    const auto report = run_step(engine, loader, {.samples = 1, .grain_samples = 1}, never);
    if (report->skipped) {
        throw Error(cat("the gradient is wrong, so no time is worth printing: ", report->skip_reason, "."));
    }
    const MeanGradient mean = engine.sum.mean();
    Gradients gradients;
    for (int64_t tensor = 0; tensor < std::ssize(engine.sum.tensors()); ++tensor) {
        gradients.push_back(numbers_of(kernels, mean.of(tensor)));
    }
    return gradients;
}

double norm_of(const std::vector<double>& values) {
    double squares = 0;
    for (const double value : values) {
        squares += value * value;
    }
    return std::sqrt(squares);
}

double distance_of(const std::vector<double>& a, const std::vector<double>& b) {
    double squares = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        squares += (a[i] - b[i]) * (a[i] - b[i]);
    }
    return std::sqrt(squares);
}

}  // namespace

GradientCheck check_gradient(const BenchRequest& request) {
    const auto model = cut_model(request);
    Settings settings = bench_settings(request);
    settings.data.sequence_length = std::min(request.sequence, kTokens);
    settings.window = {.samples = 1, .tokens = 0, .grain_samples = 1, .micro_batch_grains = 1};
    settings.compute.host_state = HostState::none;  // which changes no bit
    const Choices choices = bench_choices(request, model->blocks());
    Pool pool(static_cast<int>(request.threads));
    const auto gradients = [&](const Settings& of) {
        const DeviceChoice device = device_of(of.compute);
        const ArenaPlan plan = plan_arena(of, model, of.data.sequence_length, pool.threads(), choices);
        Arena arena(make_backing(device, plan.peak_bytes));
        return gradients_of(of, model, choices, *make_kernels(device, pool, arena));
    };
    const Gradients got = gradients(settings);
    settings.compute.device = DeviceKind::reference;
    settings.compute.dtype = DType::fp32;
    settings.compute.sums = SumKind::fp32;
    const Gradients wanted = gradients(settings);

    GradientCheck check{.tensors = static_cast<int64_t>(wanted.size()),
                        .tokens = settings.data.sequence_length,
                        .worst_tensor = {},
                        .allowed = rounds_to_bf16(request) ? kAllowedBf16 : kAllowedFp32};
    double largest_norm = 0;
    for (const std::vector<double>& gradient : wanted) {
        largest_norm = std::max(largest_norm, norm_of(gradient));
    }
    const ParameterList& list = model->parameters();
    for (size_t tensor = 0; tensor < wanted.size(); ++tensor) {
        const double size = std::max(norm_of(wanted[tensor]), kSmallest * largest_norm);
        const double error = distance_of(got[tensor], wanted[tensor]) / size;
        if (error > check.largest_error) {
            check.largest_error = error;
            check.worst_tensor = list[static_cast<int64_t>(tensor)].name;
        }
    }
    return check;
}

void require_right(const GradientCheck& check, const BenchRequest& request) {
    if (check.largest_error > check.allowed) {
        throw Error(cat("the gradient is wrong, so no time is worth printing: ", check.worst_tensor, " differs by ",
                        check.largest_error, " from the fp32 reference, and ", word_of(request.dtype), " with ",
                        word_of(request.sums), " sums explains at most ", check.allowed,
                        ". Please report this with the output of accrue --version."));
    }
}

}  // namespace accrue
