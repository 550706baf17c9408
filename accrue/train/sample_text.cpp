#include "accrue/train/sample_text.h"

#include <algorithm>

#include "accrue/data/tokenizers/text_stream.h"
#include "accrue/data/tokenizers/visible_text.h"
#include "accrue/train/generate.h"

namespace accrue {
namespace {

constexpr int64_t kMostShownTokens = 300;
constexpr int64_t kFewestShownTokens = 16;
// About two seconds of two cores.
constexpr double kMostSampleOperations = 5e11;
// A pass over fewer rows takes as long, because it reads all weights.
constexpr int64_t kFewestSampleRows = 32;

}  // namespace

int64_t shown_tokens(int64_t parameters, int64_t prompt, int64_t longest) {
    const double operations_of_a_row = 2 * static_cast<double>(parameters);
    double operations = 0;
    int64_t tokens = 0;
    while (tokens < kMostShownTokens) {
        const int64_t rows = std::max(kFewestSampleRows, std::min(prompt + tokens, longest));
        operations += operations_of_a_row * static_cast<double>(rows);
        if (operations > kMostSampleOperations && tokens >= kFewestShownTokens) {
            break;
        }
        ++tokens;
    }
    return tokens;
}

void show_sample(Generator& model, const Weights& weights, const Tokenizer& tokenizer, ShownSample sample,
                 const std::function<void(std::string_view)>& out, const StopFlag& stop) {
    TextStream text(tokenizer);
    for (const int32_t token : sample.prompt) {
        out(visible_text(text.add(token)));
    }
    generate(model, weights, std::move(sample.prompt), sample.longest,
             {.temperature = 0.4, .tokens = sample.tokens, .end_tokens = {tokenizer.end_of_document().value_or(-1)}},
             [&](int32_t token) {
                 out(visible_text(text.add(token)));
                 return stop ? Generation::ends : Generation::goes_on;
             });
    out(visible_text(text.rest()));
}

}  // namespace accrue
