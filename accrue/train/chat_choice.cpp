#include "accrue/train/chat_choice.h"

#include "accrue/base/error.h"
#include "accrue/data/documents/chat_template.h"
#include "accrue/train/settings_words.h"

namespace accrue {
namespace {

std::optional<ChatTemplate> template_of_run(const Settings& settings) {
    for (const std::string& folder : {settings.data.tokenizer, settings.model.from}) {
        if (!folder.empty() && std::filesystem::is_directory(folder)) {
            if (auto found = find_chat_template(folder)) {
                return found;
            }
        }
    }
    return std::nullopt;
}

}  // namespace

ChatChoice choose_chat_format(const Settings& settings) {
    const std::optional<ChatFormat>& asked = settings.data.chat_format;
    const std::optional<ChatTemplate> own = template_of_run(settings);
    ChatChoice choice{.format = asked, .fault = {}, .note = {}};
    if (!asked) {
        if (own && !own->format) {
            choice.fault = cat(own->file.string(), " has a chat template that is none of ", chat_format_names(), ": ",
                               own->difference, ".");
        } else {
            choice.format = own ? *own->format : ChatFormat::chatml;
        }
    } else if (own && own->format != asked) {
        choice.note =
            cat("chat: conversations become text as ", word_of(*asked), ", as data.chat_format says; the model's own ",
                "template in ", own->file.string(), " is ",
                own->format ? std::string(word_of(*own->format)) : cat("another one (", own->difference, ")"));
    }
    return choice;
}

std::vector<std::string> chat_notes(const ChatChoice& choice, const Tokenizer* tokenizer) {
    std::vector<std::string> notes;
    if (!choice.note.empty()) {
        notes.push_back(choice.note);
    }
    std::string split;
    for (const std::string& mark : special_marks(choice.format.value())) {
        if (tokenizer != nullptr && tokenizer->encode(mark, Special::without).size() != 1) {
            split += (split.empty() ? "" : ", ") + mark;
        }
    }
    if (!split.empty()) {
        notes.push_back(
            cat("chat: the tokenizer has no token for ", split, ": the marks of ", word_of(*choice.format),
                " are split into pieces of ordinary text, which the model must learn to spell. A tokenizer ",
                "that has them, or another data.chat_format, avoids that."));
    }
    return notes;
}

void describe_chat_format(const std::filesystem::path& model_folder, ChatFormat format) {
    const std::optional<ChatTemplate> found = find_chat_template(model_folder);
    if (!found || found->format != format) {
        write_chat_template(model_folder, format);
    }
}

}  // namespace accrue
