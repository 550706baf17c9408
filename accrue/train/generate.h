#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "accrue/model/model.h"

namespace accrue {

// How the next token is chosen.
struct SamplingSettings {
    double temperature = 0.8;  // 0 = always the likeliest
    int64_t top_k = 0;         // only the k likeliest; 0 = all
    double top_p = 1.0;        // only the likeliest that together reach this probability
    uint64_t seed = 1;
    int64_t tokens = 200;                  // at most so many
    std::vector<int32_t> end_tokens = {};  // stop at any of these
};

// Chooses one token from scores; the same seed and place always give the same token. Scores that are no numbers are
// never chosen where there are others.
[[nodiscard]] int32_t choose_token(std::vector<float> scores, const SamplingSettings& settings, uint64_t place);

// What is to come after a token.
enum class Generation { goes_on, ends };

// Continues a prompt, token by token; on_token is called with each, but not with an end. Sees at most the last
// `longest` tokens.
void generate(Generator& model, const Weights& weights, std::vector<int32_t> prompt, int64_t longest,
              const SamplingSettings& settings, const std::function<Generation(int32_t)>& on_token);

}  // namespace accrue
