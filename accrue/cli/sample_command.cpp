#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "accrue/base/error.h"
#include "accrue/cli/commands.h"
#include "accrue/cli/standard_output.h"
#include "accrue/data/chat_format.h"
#include "accrue/data/corpus.h"
#include "accrue/data/tokenizer.h"
#include "accrue/train/reader.h"

namespace accrue {
namespace {

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

ChatFormat chat_format_for(const SampleCommand& command, const TrainedModel& model) {
    if (!command.chat_format.empty()) {
        return chat_format_of(command.chat_format);
    }
    return chat_format_of(model.settings() ? model.settings()->data.chat_format : "chatml");
}

// A user's turn and the mark that opens the answer, as the training data has them; and the token that ends an answer.
struct ChatPrompt {
    std::vector<int32_t> ids;
    int32_t end_token = -1;
};

ChatPrompt chat_prompt(const Tokenizer& tokenizer, ChatFormat format, const std::string& message) {
    Document answer;
    append_turn(answer, format, ChatRole::assistant, "");
    Document document;
    append_turn(document, format, ChatRole::user, message);
    document.parts.push_back(answer.parts.front());
    TokenizedDocument tokenized;
    tokenize_document(tokenizer, document, PiecePlace::first, tokenized);
    ChatPrompt prompt{.ids = tokenized.ids, .end_token = tokenizer.end_of_document().value_or(-1)};
    for (const DocumentPart& part : answer.parts) {
        const auto ids = tokenizer.encode(part.text, Special::without);
        if (part.counted && part.has_markup && ids.size() == 1) {
            prompt.end_token = ids.front();
        }
    }
    return prompt;
}

// The tokenizer beside a model may be another one's; an id without a row must not reach the embedding.
void check_prompt(const std::vector<int32_t>& prompt, int64_t vocabulary) {
    const auto found = std::find_if(prompt.begin(), prompt.end(), [&](int32_t id) { return id >= vocabulary; });
    if (found != prompt.end()) {
        throw Error(cat("the prompt has the token ", *found, ", but the model's vocabulary has only ", vocabulary,
                        " words (0 to ", vocabulary - 1,
                        "). The tokenizer is another model's: put the model's own beside it."));
    }
}

}  // namespace

ExitCode run_sample(const SampleCommand& command) {
    TrainedModel model(command.folder, 0, command.threads, warn);
    const Tokenizer* tokenizer = model.tokenizer();
    if (command.chat && tokenizer == nullptr) {
        throw Error("this model has no tokenizer, so it cannot chat. Give the prompt as token ids without --chat.");
    }
    SamplingSettings sampling = command.sampling;
    std::vector<int32_t> prompt;
    if (tokenizer == nullptr) {
        prompt = parse_ids(command.prompt, model.config().vocabulary);
    } else if (command.chat) {
        const ChatPrompt chat = chat_prompt(*tokenizer, chat_format_for(command, model), command.prompt);
        prompt = chat.ids;
        sampling.end_token = chat.end_token;
    } else {
        prompt = tokenizer->encode(command.prompt, Special::with);
        sampling.end_token = tokenizer->end_of_document().value_or(-1);
    }
    if (command.prompt.empty() || prompt.empty()) {
        throw Error("the prompt is empty: give at least one character to go on from.");
    }
    check_prompt(prompt, model.config().vocabulary);
    if (tokenizer != nullptr && !command.chat) {
        fmt::print("{}", command.prompt);
    }
    generate(model.decoder(), model.weights(), prompt, model.longest(), sampling, [&](int32_t token) {
        fmt::print("{}", tokenizer != nullptr ? tokenizer->decode(std::span(&token, 1), Special::without)
                                              : fmt::format("{} ", token));
        flush_output();
    });
    fmt::print("\n");
    return ExitCode::done;
}

}  // namespace accrue
