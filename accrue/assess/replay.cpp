#include "accrue/assess/replay.h"

#include "accrue/base/hash.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/train/initial_weights.h"
#include "accrue/train/plan_choice.h"
#include "accrue/train/state.h"

namespace accrue {
namespace {

std::string checksum_of(const TokenBatch& batch) {
    Hasher hasher;
    hasher.add(std::as_bytes(std::span(batch.tokens)));
    hasher.add(std::as_bytes(std::span(batch.targets)));
    hasher.add(std::as_bytes(std::span(batch.positions)));
    hasher.add(std::as_bytes(std::span(batch.segments)));
    return hasher.digest();
}

}  // namespace

Replay replay(const RunFolder& folder, int64_t from, int64_t to, const ProgramUnderTest& program,
              const std::function<void(int64_t step)>& before_step) {
    const RunInputs inputs = open_inputs(read_settings(folder.settings(), {}));
    Pool pool(static_cast<int>(inputs.settings.compute.threads));
    const PlanChoice plan(settings_to_plan(inputs), inputs.model, inputs.longest_sample(), pool.threads());
    const DeviceChoice device = device_of(inputs.settings.compute);
    Arena arena(make_backing(device, plan.address_bytes()),
                make_host_part(device, plan.plan().host_bytes, {.pool = &pool}));
    arena.keep(plan.plan().arena_bytes);
    const auto kernels = program.kernels(device, pool, arena);
    Engine engine(inputs.settings, inputs.model, inputs.longest_sample(), *kernels, plan.plan().choices);
    engine.rules.micro_batch_grains = plan.plan().micro_batch_grains;
    const Loader loader(*inputs.train, sample_order_of(inputs.settings, inputs.train->size()));
    if (from > 0) {
        load_state(engine, definition_of(inputs, engine.model->parameters()),
                   checkpoint_path(folder.checkpoints(), from));
        engine.state.open.reset();  // its grains are computed again
    } else {
        load_initial_weights(engine, inputs.settings);
    }
    const StopFlag never{false};
    Replay result;
    for (const Parameter& parameter : engine.model->parameters().parameters) {
        result.parameters.push_back(parameter.name);
    }
    while (engine.state.step < to) {
        before_step(engine.state.step + 1);
        const Window window = loader.window_from(engine.state.position, engine.rules.window);
        ReplayedStep& step = result.steps.emplace_back();
        step.weights_before = engine.weights_hash();
        for (int64_t grain = 0; grain < window.grains(); ++grain) {
            step.grain_data.push_back(checksum_of(loader.load(window, std::span(&grain, 1))));
            step.grain_samples.push_back(loader.samples_of(window, grain));
        }
        step.report = *program.step(engine, loader, window, never);
        step.sums = accrue::checksum_of(engine.sum);
        step.ledger = engine.sum.ledger();
        step.weights_after = engine.weights_hash();
    }
    return result;
}

}  // namespace accrue
