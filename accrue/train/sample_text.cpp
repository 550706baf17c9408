#include "accrue/train/sample_text.h"

#include <algorithm>

#include "accrue/train/generate.h"

namespace accrue {
namespace {

constexpr int64_t kMostShownTokens = 300;
constexpr int64_t kFewestShownTokens = 16;
// About two seconds of two cores.
constexpr double kMostSampleOperations = 5e11;
// A pass over fewer rows takes as long, because it reads all weights.
constexpr int64_t kFewestSampleRows = 32;

// Without the bytes at the end that begin a character of UTF-8 and do not finish it, and without the mark that decoders put
// in the place of such bytes.
std::string_view complete_part(std::string_view text) {
    constexpr std::string_view kReplacement = "\xef\xbf\xbd";
    while (text.ends_with(kReplacement)) {
        text.remove_suffix(kReplacement.size());
    }
    for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
        const auto byte = static_cast<unsigned char>(text[text.size() - back]);
        if ((byte & 0xc0U) != 0x80U) {  // the first byte of a character
            const size_t length = byte >= 0xf0U ? 4 : byte >= 0xe0U ? 3 : byte >= 0xc0U ? 2 : 1;
            return length > back ? text.substr(0, text.size() - back) : text;
        }
    }
    return text;
}

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

void TextPieces::show(std::string_view text) {
    const std::string_view complete = complete_part(text);
    // Decoders may change their mind about what came before; what was shown stays.
    if (complete.size() > shown_.size() && complete.starts_with(shown_)) {
        out_(complete.substr(shown_.size()));
        shown_ = complete;
    }
}

void TextPieces::end(std::string_view text) {
    if (text.starts_with(shown_)) {
        out_(text.substr(shown_.size()));
    } else {
        out_("\n");
        out_(text);
    }
    shown_ = text;
}

void show_sample(Model& model, const Weights& weights, const Tokenizer& tokenizer, std::vector<int32_t> prompt,
                 int64_t longest, const std::function<void(std::string_view)>& out, const StopFlag& stop) {
    struct Stopped {};
    std::vector<int32_t> text = prompt;
    TextPieces pieces(out);
    pieces.show(tokenizer.decode(text, Special::without));
    const int64_t tokens = shown_tokens(model.parameters().trainable(), std::ssize(prompt), longest);
    try {
        generate(model, weights, std::move(prompt), longest,
                 {.temperature = 0.4, .tokens = tokens, .end_token = tokenizer.end_of_document().value_or(-1)},
                 [&](int32_t token) {
                     text.push_back(token);
                     pieces.show(tokenizer.decode(text, Special::without));
                     stop ? throw Stopped() : void();
                 });
    } catch (const Stopped&) {
        // Nobody waits for the rest.
    }
    pieces.end(tokenizer.decode(text, Special::without));
}

}  // namespace accrue
