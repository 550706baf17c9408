#include <algorithm>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "accrue/base/error.h"
#include "accrue/cli/commands.h"
#include "accrue/cli/device_option.h"
#include "accrue/cli/standard_output.h"
#include "accrue/data/cache/document_tokenizer.h"
#include "accrue/data/documents/chat_format.h"
#include "accrue/data/tokenizers/text_stream.h"
#include "accrue/data/tokenizers/visible_text.h"
#include "accrue/train/chat_choice.h"
#include "accrue/train/trained_model.h"

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

// As asked, else the run's, else that of the model's own template.
ChatFormat chat_format_for(const SampleCommand& command, const TrainedModel& model) {
    if (!command.chat_format.empty()) {
        return chat_format_of(command.chat_format);
    }
    Settings settings = model.settings().value_or(Settings{});
    if (!model.settings()) {
        settings.model.from = command.folder;
    }
    const ChatChoice choice = choose_chat_format(settings);
    if (!choice.format) {
        throw Error(cat(choice.fault, " Choose one of them with --chat-format, or give the prompt as the model wants ",
                        "it, without --chat."));
    }
    return *choice.format;
}

// What a model is to go on from, and how its text is read.
struct Prompt {
    std::vector<int32_t> ids = {};
    std::vector<int32_t> known = {};  // those whose text is on the screen already
    std::vector<int32_t> end_tokens = {};
    std::vector<std::string> end_texts = {};
    std::string dropped = {};  // what the text begins with but does not say
};

Prompt text_prompt(const Tokenizer& tokenizer, const std::string& text) {
    Prompt prompt{.ids = tokenizer.encode(text, Special::with),
                  .end_tokens = {tokenizer.end_of_document().value_or(-1)}};
    prompt.known = prompt.ids;
    return prompt;
}

// A user's turn and the mark that opens the answer, as the training data has them. The answer is a text of its own.
Prompt chat_prompt(const Tokenizer& tokenizer, ChatFormat format, const std::string& message) {
    Document document;
    append_turn(document, format, ChatRole::user, message);
    document.parts.push_back(answer_begin(format));
    TokenizedDocument tokenized;
    tokenize_document(tokenizer, document, PiecePlace::first, tokenized);
    Prompt prompt{.ids = tokenized.ids,
                  .end_tokens = {tokenizer.end_of_document().value_or(-1)},
                  .dropped = answer_prefix(format)};
    const std::string end = answer_end(format);
    const std::vector<int32_t> end_ids = tokenizer.encode(end, Special::without);
    if (end_ids.size() == 1) {
        prompt.end_tokens.push_back(end_ids.front());
    } else {
        // A mark in pieces may have a space before it, which the tokenizer puts before any text.
        prompt.end_texts = {end, " " + end};
    }
    return prompt;
}

// Writes text as it comes, up to an end.
class TextPrinter {
public:
    TextPrinter(const Tokenizer& tokenizer, const Prompt& prompt)
        : stream_(tokenizer, prompt.known), end_(prompt.end_texts), dropped_(prompt.dropped) {}

    Generation print(int32_t token) {
        print(end_.add(stream_.add(token)));
        return end_.reached() ? Generation::ends : Generation::goes_on;
    }
    void finish() {
        print(end_.add(stream_.rest()));
        print(end_.rest());
    }

private:
    void print(std::string text) {
        if (!text.empty() && !std::exchange(begun_, true) && text.starts_with(dropped_)) {
            text.erase(0, dropped_.size());
        }
        fmt::print("{}", visible_text(text));
        flush_output();
    }

    TextStream stream_;
    TextEnd end_;
    std::string dropped_;
    bool begun_ = false;
};

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
    TrainedModel model(command.folder, 0, command.threads, asked_device(command.device), warn);
    Generator& generator = model.generator();
    const Tokenizer* tokenizer = model.tokenizer();
    if (command.chat && tokenizer == nullptr) {
        throw Error("this model has no tokenizer, so it cannot chat. Give the prompt as token ids without --chat.");
    }
    Prompt prompt;
    if (tokenizer == nullptr) {
        prompt.ids = parse_ids(command.prompt, model.spec()->vocabulary());
    } else {
        prompt = command.chat ? chat_prompt(*tokenizer, chat_format_for(command, model), command.prompt)
                              : text_prompt(*tokenizer, command.prompt);
    }
    if (command.prompt.empty() || prompt.ids.empty()) {
        throw Error("the prompt is empty: give at least one character to go on from.");
    }
    check_prompt(prompt.ids, model.spec()->vocabulary());
    SamplingSettings sampling = command.sampling;
    sampling.end_tokens = prompt.end_tokens;
    const auto go_on = [&](const std::function<Generation(int32_t)>& on_token) {
        generate(generator, model.weights(), prompt.ids, model.longest(), sampling, on_token);
    };
    if (tokenizer == nullptr) {
        go_on([](int32_t token) {
            fmt::print("{} ", token);
            flush_output();
            return Generation::goes_on;
        });
    } else {
        fmt::print("{}", command.chat ? "" : visible_text(command.prompt));
        TextPrinter printer(*tokenizer, prompt);
        go_on([&](int32_t token) { return printer.print(token); });
        printer.finish();
    }
    fmt::print("\n");
    return ExitCode::done;
}

}  // namespace accrue
