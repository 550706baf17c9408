#include "accrue/train/evaluate.h"

namespace accrue {

Evaluation evaluate(Model& model, const Weights& weights, const Dataset& data, int64_t samples_at_once) {
    const StopFlag never{false};
    return *evaluate_unless_stopped(model, weights, data, samples_at_once, never);
}

std::optional<Evaluation> evaluate_unless_stopped(Model& model, const Weights& weights, const Dataset& data,
                                                  int64_t samples_at_once, const StopFlag& stop,
                                                  const std::function<void(int64_t, int64_t)>& told) {
    const Loader loader(data, SampleOrder(SampleOrder::Kind::sequential, 0, data.size()));
    const Window all{.first = {}, .samples = data.size(), .grain_samples = samples_at_once};
    double sum = 0;
    int64_t tokens = 0;
    for (int64_t grain = 0; grain < all.grains(); ++grain) {
        if (stop) {
            return std::nullopt;
        }
        if (told) {
            told(grain * samples_at_once, data.size());
        }
        const TokenBatch batch = loader.load(all, std::span(&grain, 1));
        const std::vector<float> losses = model.losses(batch, weights);
        for (size_t row = 0; row < losses.size(); ++row) {
            sum += static_cast<double>(losses[row]);
            tokens += batch.targets[row] >= 0 ? 1 : 0;
        }
    }
    return Evaluation{.loss = tokens > 0 ? sum / static_cast<double>(tokens) : 0, .tokens = tokens};
}

}  // namespace accrue
