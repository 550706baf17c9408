#include "accrue/data/documents/chat_format.h"

#include <array>
#include <utility>

#include "accrue/base/error.h"
#include "accrue/data/tokenizers/unicode.h"

namespace accrue {
namespace {

// What stands around a content. Only the end counts as said; nobody says what follows it.
struct Marks {
    std::string first;  // before the first turn of a conversation
    std::string begin;
    std::string before_content;  // belongs to the content: tokenizers join a space with the word behind it
    std::string end;
    std::string after_end;
};

std::string name_of(ChatRole role) {
    switch (role) {
        case ChatRole::system:
            return "system";
        case ChatRole::user:
            return "user";
        case ChatRole::assistant:
            break;
    }
    return "assistant";
}

Marks marks_of(ChatFormat format, ChatRole role) {
    std::string name = name_of(role);
    switch (format) {
        case ChatFormat::chatml:
            return {"", cat("<|im_start|>", name, "\n"), "", "<|im_end|>", "\n"};
        case ChatFormat::llama3:
            return {"<|begin_of_text|>", cat("<|start_header_id|>", name, "<|end_header_id|>\n\n"), "", "<|eot_id|>",
                    ""};
        case ChatFormat::plain:
            break;
    }
    name[0] = static_cast<char>(name[0] - 'a' + 'A');
    return {"", cat(name, ":"), " ", "\n", ""};
}

}  // namespace

ChatFormat chat_format_of(const std::string& name) {
    const std::optional<ChatFormat> format = value_of_word<ChatFormat>(name);
    if (!format) {
        throw Error(cat("there is no chat format named \"", name, "\". There are: ", chat_format_names()));
    }
    return *format;
}

std::vector<ChatFormat> chat_formats() {
    std::vector<ChatFormat> formats;
    for (const Word<ChatFormat>& word : words_for(ChatFormat())) {
        formats.push_back(word.value);
    }
    return formats;
}

std::string chat_format_names() {
    std::string names;
    for (const std::string& name : words_of<ChatFormat>()) {
        names += (names.empty() ? "" : ", ") + name;
    }
    return names;
}

std::optional<ChatRole> chat_role_of(std::string_view name) {
    for (const ChatRole role : {ChatRole::system, ChatRole::user, ChatRole::assistant}) {
        if (name == name_of(role)) {
            return role;
        }
    }
    return std::nullopt;
}

void append_turn(Document& document, ChatFormat format, ChatRole role, std::string_view content) {
    const bool counted = role == ChatRole::assistant;
    Marks marks = marks_of(format, role);
    const auto append = [&](std::string text, bool is_counted, bool has_markup) {
        if (!text.empty()) {
            document.parts.push_back(
                {.text = std::move(text), .ids = {}, .counted = is_counted, .has_markup = has_markup});
        }
    };
    append(document.parts.empty() ? std::move(marks.first) : "", false, true);
    append(std::move(marks.begin), false, true);
    append(marks.before_content.append(format == ChatFormat::llama3 ? trimmed(content) : content), counted, false);
    append(std::move(marks.end), counted, true);
    append(std::move(marks.after_end), false, true);
}

DocumentPart answer_begin(ChatFormat format) {
    return {.text = marks_of(format, ChatRole::assistant).begin, .ids = {}, .counted = false, .has_markup = true};
}

std::string answer_prefix(ChatFormat format) {
    return marks_of(format, ChatRole::assistant).before_content;
}

std::string answer_end(ChatFormat format) {
    return marks_of(format, ChatRole::assistant).end;
}

std::vector<std::string> special_marks(ChatFormat format) {
    switch (format) {
        case ChatFormat::chatml:
            return {"<|im_start|>", "<|im_end|>"};
        case ChatFormat::llama3:
            return {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
        case ChatFormat::plain:
            break;
    }
    return {};
}

}  // namespace accrue
