#include "accrue/train/generate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "accrue/base/random.h"

namespace accrue {

int32_t choose_token(std::vector<float> scores, const SamplingSettings& settings, uint64_t place) {
    constexpr float kLowest = -std::numeric_limits<float>::infinity();
    std::replace_if(
        scores.begin(), scores.end(), [](float score) { return std::isnan(score); }, kLowest);
    std::vector<int32_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
    });
    const double best = static_cast<double>(scores[static_cast<size_t>(order.front())]);
    if (settings.temperature <= 0 || !std::isfinite(best)) {
        return order.front();
    }
    if (settings.top_k > 0 && settings.top_k < static_cast<int64_t>(order.size())) {
        order.resize(static_cast<size_t>(settings.top_k));
    }
    std::vector<double> weights;
    double total = 0;
    for (const int32_t token : order) {
        weights.push_back(
            std::exp((static_cast<double>(scores[static_cast<size_t>(token)]) - best) / settings.temperature));
        total += weights.back();
    }
    double kept = 0;
    size_t count = 0;
    while (count < weights.size() && (count == 0 || kept < settings.top_p * total)) {
        kept += weights[count++];
    }
    double target = static_cast<double>(uniform(mix(settings.seed, place))) * kept;
    for (size_t i = 0; i < count; ++i) {
        target -= weights[i];
        if (target < 0) {
            return order[i];
        }
    }
    return order[count - 1];
}

void generate(Generator& model, const Weights& weights, std::vector<int32_t> prompt, int64_t longest,
              const SamplingSettings& settings, const std::function<Generation(int32_t)>& on_token) {
    const std::vector<int32_t>& ends = settings.end_tokens;
    for (int64_t made = 0; made < settings.tokens; ++made) {
        const auto seen = std::min(prompt.size(), static_cast<size_t>(longest));
        const std::span<const int32_t> last(prompt.data() + (prompt.size() - seen), seen);
        const int32_t token = choose_token(model.next_scores(last, weights), settings, static_cast<uint64_t>(made));
        if (std::find(ends.begin(), ends.end(), token) != ends.end() || on_token(token) == Generation::ends) {
            return;
        }
        prompt.push_back(token);
    }
}

}  // namespace accrue
