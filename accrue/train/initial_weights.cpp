#include "accrue/train/initial_weights.h"

#include "accrue/model/model_folder.h"

namespace accrue {

bool starts_fresh(const Settings::Model& model) {
    return model.from.empty() || model.weights == InitialWeights::fresh ||
           (!model.weights && !has_model_weights(model.from));
}

void load_initial_weights(Engine& engine, const Settings& settings, const LongWork& work) {
    if (starts_fresh(settings.model)) {
        initialize_weights(engine.model->parameters(), static_cast<uint64_t>(settings.run.seed), engine.put_weights(),
                           work);
    } else {
        load_model_weights(settings.model.from, engine.model->parameters(), engine.put_weights(), work);
    }
    engine.refresh_copy();
}

}  // namespace accrue
