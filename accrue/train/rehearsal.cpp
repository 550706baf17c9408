#include "accrue/train/rehearsal.h"

#include <array>
#include <numeric>

#include "accrue/base/random.h"

namespace accrue {
namespace {

constexpr uint64_t kSeed = 0x7265686561727365;
// A graph is recorded when something comes the second time.
constexpr int kTimes = 2;

// Not zeros, with which products are faster than with any data.
void fill_weights(const Engine& engine) {
    const PutWeights put = engine.put_weights();
    std::array<float, kPutElements> values;
    for (const Parameter& parameter : engine.model->parameters().parameters) {
        for (int64_t first = 0; first < parameter.elements(); first += kPutElements) {
            const auto some =
                std::span(values).first(static_cast<size_t>(std::min(kPutElements, parameter.elements() - first)));
            for (size_t i = 0; i < some.size(); ++i) {
                some[i] = (uniform(mix(kSeed, static_cast<uint64_t>(first) + i)) - 0.5F) / 8;
            }
            put(parameter.offset + first, some);
        }
    }
}

// The longest samples, with random words.
class RandomSamples final : public PassedBatches {
public:
    RandomSamples(const LongestSamples& samples, int64_t vocabulary)
        : PassedBatches(samples), vocabulary_(static_cast<uint64_t>(vocabulary)) {}
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override {
        TokenBatch batch = data().load(window, grains);
        for (size_t i = 0; i < batch.tokens.size(); ++i) {
            batch.tokens[i] = static_cast<int32_t>(mix(kSeed, 1, i) % vocabulary_);
            batch.targets[i] = static_cast<int32_t>(mix(kSeed, 2, i) % vocabulary_);
        }
        return batch;
    }

private:
    uint64_t vocabulary_;
};

}  // namespace

void rehearse(Engine& engine, int64_t longest_sample) {
    if (!engine.kernels.traits().prepares) {
        return;
    }
    fill_weights(engine);
    engine.refresh_copy();
    const int64_t grains = engine.rules.micro_batch_grains;
    const int64_t grain_samples = engine.rules.window.grain_samples;
    const Window window{.samples = grains * grain_samples, .grain_samples = grain_samples};
    const LongestSamples longest(longest_sample);
    const RandomSamples samples(longest, engine.spec->vocabulary());
    std::vector<int64_t> all(static_cast<size_t>(grains));
    std::iota(all.begin(), all.end(), 0);
    const TokenBatch batch = samples.load(window, all);
    for (int i = 0; i < kTimes; ++i) {
        engine.sum.open(grains, Units::first(std::vector<float>(engine.sum.tensors().size(), 1.0F)), 0,
                        engine.state.loss_scale.value);
        engine.model->forward_backward(batch, engine.weights_to_read(), engine.sum);
        (void)engine.sum.ledger();
    }
}

}  // namespace accrue
