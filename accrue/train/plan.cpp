#include "accrue/train/plan.h"

#include "accrue/base/bytes.h"
#include "accrue/base/memory.h"
#include "accrue/kernels/dry/dry_kernels.h"
#include "accrue/train/engine.h"
#include "accrue/train/loader.h"
#include "accrue/train/step.h"

namespace accrue {

ArenaPlan plan_arena(const Settings& settings, const std::shared_ptr<const ModelSpec>& model, int64_t longest_sample,
                     int threads) {
    return plan_arena(settings, model, longest_sample, threads, choices_of(settings, model->blocks()));
}

ArenaPlan plan_arena(const Settings& settings, const std::shared_ptr<const ModelSpec>& model, int64_t longest_sample,
                     int threads, const Choices& choices) {
    Arena arena = Arena::dry();
    const auto kernels = make_dry_kernels(arena, threads);
    Engine engine(settings, model, longest_sample, *kernels, choices);
    ArenaPlan plan{.resident_bytes = arena.high_water_bytes()};

    // One micro-batch says all about memory: the next one takes the same places.
    const LongestSamples samples(longest_sample);
    const int64_t grains = engine.rules.micro_batch_grains;
    const Window window{.samples = grains * settings.window.grain_samples,
                        .grain_samples = settings.window.grain_samples};
    const StopFlag never{false};
    (void)run_step(engine, samples, window, never);
    plan.flops = static_cast<int64_t>(kernels->work().flops());

    std::vector<int64_t> all(static_cast<size_t>(grains));
    for (int64_t grain = 0; grain < grains; ++grain) {
        all[static_cast<size_t>(grain)] = grain;
    }
    (void)engine.model->losses(samples.load(window, all), engine.weights_to_read());
    plan.peak_bytes = arena.high_water_bytes();
    return plan;
}

std::optional<int64_t> available_memory() {
    const MemoryFacts facts = read_memory_facts();
    const MemoryBound bound = memory_bound(facts);
    return bound.reason.empty() ? std::nullopt : std::optional(bound.bytes - facts.process.resident_bytes);
}

void check_memory(const ArenaPlan& plan, int64_t available_bytes) {
    if (plan.peak_bytes > available_bytes) {
        throw Error(cat("this run needs ", format_bytes(plan.peak_bytes), " (weights, sums and moments ",
                        format_bytes(plan.resident_bytes), ", one micro-batch ",
                        format_bytes(plan.peak_bytes - plan.resident_bytes), "), but the machine has only ",
                        format_bytes(available_bytes),
                        " to give. Choose a smaller model, a shorter data.sequence_length or a smaller ",
                        "window.micro_batch_grains (it does not change the result)."));
    }
}

}  // namespace accrue
