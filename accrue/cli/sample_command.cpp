#include <sstream>

#include <fmt/format.h>

#include "accrue/base/error.h"
#include "accrue/cli/commands.h"
#include "accrue/data/dataset.h"
#include "accrue/train/reader.h"

namespace accrue {
namespace {

// Runs on text and built-in stories speak bytes; of other models only token ids are known.
bool speaks_text(const TrainedModel& model) {
    if (!model.settings()) {
        return false;
    }
    const auto& files = model.settings()->data.train;
    return files.empty() || is_text({files.begin(), files.end()});
}

std::vector<int32_t> parse_ids(const std::string& prompt, int64_t vocabulary) {
    std::vector<int32_t> ids;
    std::istringstream words(prompt);
    for (std::string word; words >> word;) {
        size_t used = 0;
        int64_t id = -1;
        try {
            id = std::stoll(word, &used);
        } catch (const std::exception&) {
            used = 0;
        }
        if (used != word.size() || id < 0 || id >= vocabulary) {
            throw Error(cat("\"", word, "\" is not a token id from 0 to ", vocabulary - 1,
                            ". This model was not trained on text, so give the prompt as ids: \"1 2 3\"."));
        }
        ids.push_back(static_cast<int32_t>(id));
    }
    return ids;
}

}  // namespace

ExitCode run_sample(const SampleCommand& command) {
    TrainedModel model(command.folder, 0, command.threads);
    const bool text = speaks_text(model);
    const ByteTokenizer tokenizer;
    const std::vector<int32_t> prompt =
        text ? tokenizer.encode(command.prompt) : parse_ids(command.prompt, model.config().vocabulary);
    if (prompt.empty()) {
        throw Error("the prompt is empty: give at least one character to go on from.");
    }
    SamplingSettings sampling = command.sampling;
    if (text) {
        sampling.end_token = ByteTokenizer::kEnd;
        fmt::print("{}", command.prompt);
    }
    generate(model.decoder(), model.weights(), prompt, model.longest(), sampling, [&](int32_t token) {
        if (text) {
            fmt::print("{}", tokenizer.decode(std::span(&token, 1)));
        } else {
            fmt::print("{} ", token);
        }
        std::fflush(stdout);
    });
    fmt::print("\n");
    return ExitCode::done;
}

}  // namespace accrue
