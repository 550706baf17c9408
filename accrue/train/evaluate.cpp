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

int64_t counted_bytes(const Dataset& data, const Tokenizer& tokenizer) {
    int64_t bytes = 0;
    std::vector<int32_t> run;  // a token that is known, and counted ones behind it
    const auto close_run = [&] {
        if (run.size() > 1) {
            bytes += std::ssize(tokenizer.decode(run, Special::without)) -
                     std::ssize(tokenizer.decode(std::span(run).first(1), Special::without));
        }
        run.clear();
    };
    for (int64_t index = 0; index < data.size(); ++index) {
        const Sample sample = data.sample(index);
        for (size_t place = 0; place < sample.targets.size(); ++place) {
            // The text of a document begins behind the end of another.
            if (sample.targets[place] < 0 || sample.tokens[place] == tokenizer.end_of_document()) {
                close_run();
            }
            if (sample.targets[place] >= 0) {
                if (run.empty()) {
                    run.push_back(sample.tokens[place]);
                }
                run.push_back(sample.targets[place]);
            }
        }
        close_run();
    }
    return bytes;
}

}  // namespace accrue
