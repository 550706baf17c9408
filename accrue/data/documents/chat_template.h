#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "accrue/data/documents/chat_format.h"

namespace accrue {

// The chat template that a model folder brings, and what is known of it.
struct ChatTemplate {
    std::filesystem::path file = {};
    // The format that gives the same text, with a system message and without; none if there is no such format.
    std::optional<ChatFormat> format = {};
    // Then: why.
    std::string difference = {};
};

// The template of chat_template.jinja, or else of tokenizer_config.json (the one named "default" of several); nothing
// if the folder has none.
[[nodiscard]] std::optional<ChatTemplate> find_chat_template(const std::filesystem::path& folder);

// A template of our own for a format, and the other way round: the format whose text a template writes. A template that
// adds a system message of its own, or that says something else than these messages, is none of them.
[[nodiscard]] std::string chat_template_of(ChatFormat format);
struct SpecialTexts {
    std::string begin;  // bos_token
    std::string end;    // eos_token
};
[[nodiscard]] ChatTemplate recognize_chat_template(const std::string& source, const SpecialTexts& special = {});

// Makes the files of a model folder describe a format: in tokenizer_config.json if there is one, and in
// chat_template.jinja if there is one or no tokenizer_config.json.
void write_chat_template(const std::filesystem::path& folder, ChatFormat format);

}  // namespace accrue
