#include "accrue/train/initial_weights.h"

#include "accrue/model/model_folder.h"

namespace accrue {

std::unique_ptr<Kernels> make_kernels(const Settings::Compute& compute, Pool& pool, Arena& arena) {
    return compute.device == DeviceKind::reference ? make_reference_kernels(arena)
                                                   : make_cpu_kernels(pool, arena, compute.instruction_set);
}

bool starts_fresh(const Settings::Model& model) {
    return model.from.empty() || model.weights == InitialWeights::fresh ||
           (!model.weights && !has_model_weights(model.from));
}

void load_initial_weights(Engine& engine, const Settings& settings, const LongWork& work) {
    const View<float> master = engine.weights.master;
    const std::span<float> flat(master.data, static_cast<size_t>(master.columns));
    if (starts_fresh(settings.model)) {
        initialize_weights(engine.model.parameters(), static_cast<uint64_t>(settings.run.seed), flat, work);
    } else {
        load_model_weights(settings.model.from, engine.model.parameters(), flat, work);
    }
    engine.refresh_copy();
}

}  // namespace accrue
