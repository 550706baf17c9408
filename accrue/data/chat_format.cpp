#include "accrue/data/chat_format.h"

#include <utility>

#include "accrue/base/error.h"

namespace accrue {
namespace {

// What stands around a content. Only the end counts as said; nobody says what follows it.
struct Marks {
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
            return {cat("<|im_start|>", name, "\n"), "", "<|im_end|>", "\n"};
        case ChatFormat::llama3:
            return {cat("<|start_header_id|>", name, "<|end_header_id|>\n\n"), "", "<|eot_id|>", ""};
        case ChatFormat::plain:
            break;
    }
    name[0] = static_cast<char>(name[0] - 'a' + 'A');
    return {cat(name, ":"), " ", "\n", ""};
}

}  // namespace

ChatFormat chat_format_of(const std::string& name) {
    if (name == "chatml") {
        return ChatFormat::chatml;
    }
    if (name == "llama3") {
        return ChatFormat::llama3;
    }
    if (name == "plain") {
        return ChatFormat::plain;
    }
    throw Error(cat("there is no chat format named \"", name, "\". There are: chatml, llama3, plain"));
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
    append(std::move(marks.begin), false, true);
    append(marks.before_content.append(content), counted, false);
    append(std::move(marks.end), counted, true);
    append(std::move(marks.after_end), false, true);
}

}  // namespace accrue
