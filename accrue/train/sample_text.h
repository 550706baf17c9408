#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "accrue/data/tokenizers/tokenizer.h"
#include "accrue/model/model.h"
#include "accrue/train/step.h"

namespace accrue {

// How many tokens of text a run shows at its end: 300, and fewer of a large model, so that it takes seconds and not
// minutes. `prompt` tokens to go on from, at most `longest` in a pass.
[[nodiscard]] int64_t shown_tokens(int64_t parameters, int64_t prompt, int64_t longest);

// What to go on from, and how far.
struct ShownSample {
    std::vector<int32_t> prompt;
    int64_t longest = 0;  // tokens in a pass
    int64_t tokens = 0;   // at most so many new ones
};

// Lets a model go on from a prompt and hands the text on as it comes, the prompt first, with control characters made
// visible. Ends early when `stop` is set.
void show_sample(Generator& model, const Weights& weights, const Tokenizer& tokenizer, ShownSample sample,
                 const std::function<void(std::string_view piece)>& out, const StopFlag& stop);

}  // namespace accrue
