#include "accrue/train/start.h"

#include "accrue/model/model_folder.h"

namespace accrue {

DeviceChoice device_of(const Settings::Compute& compute) {
    return {.kind = compute.device == "reference" ? DeviceKind::reference : DeviceKind::cpu,
            .instruction_set = compute.instruction_set};
}

SampleOrder sample_order_of(const Settings& settings, int64_t samples) {
    const bool sequential = settings.data.order == "sequential";
    return {sequential ? SampleOrder::Kind::sequential : SampleOrder::Kind::shuffled,
            static_cast<uint64_t>(settings.run.seed), samples};
}

bool starts_fresh(const Settings::Model& model) {
    return model.from.empty() || model.weights == "fresh" ||
           (model.weights == "auto" && !has_model_weights(model.from));
}

void load_first_weights(Engine& engine, const Settings& settings, const LongWork& work) {
    if (starts_fresh(settings.model)) {
        initialize_weights(engine.model->parameters(), static_cast<uint64_t>(settings.run.seed), engine.put_weights(),
                           work);
    } else {
        load_model_weights(settings.model.from, engine.model->parameters(), engine.put_weights(), work);
    }
    engine.refresh_copy();
}

}  // namespace accrue
