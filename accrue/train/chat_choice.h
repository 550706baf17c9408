#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accrue/data/documents/chat_format.h"
#include "accrue/data/tokenizers/tokenizer.h"
#include "accrue/train/settings.h"

namespace accrue {

// Which chat format conversations become text in.
struct ChatChoice {
    std::optional<ChatFormat> format;  // nothing = left open, and the model's own template is none of those known
    std::string fault;                 // then: the file, and why
    std::string note;                  // what to tell a user whose choice is not the model's own template
};

// What data.chat_format says; if it leaves it open, the format of the template that the tokenizer's or the model's folder has,
// and ChatML if they have none.
[[nodiscard]] ChatChoice choose_chat_format(const Settings& settings);

// What to tell at the start of a run with conversations: a choice that is not the model's own, and marks that are no
// tokens of their own.
[[nodiscard]] std::vector<std::string> chat_notes(const ChatChoice& choice, const Tokenizer* tokenizer);

// Makes a trained model's folder describe the format that its conversations had.
void describe_chat_format(const std::filesystem::path& model_folder, ChatFormat format);

}  // namespace accrue
