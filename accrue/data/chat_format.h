#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "accrue/data/document.h"

namespace accrue {

// How a conversation becomes text:
//   chatml  <|im_start|>role\ncontent<|im_end|>\n
//   llama3  <|start_header_id|>role<|end_header_id|>\n\ncontent<|eot_id|>
//   plain   User: content\nAssistant: content\n
enum class ChatFormat { chatml, llama3, plain };

// Who speaks. Only these, because the name of a role stands among the marks, where special tokens are recognised.
enum class ChatRole { system, user, assistant };

// The format of that name; an error lists the formats there are.
[[nodiscard]] ChatFormat chat_format_of(const std::string& name);
// The role of that name, if there is one.
[[nodiscard]] std::optional<ChatRole> chat_role_of(std::string_view name);

// Adds a turn: its marks as parts with has_markup, its content as a part without, so that no content can bring special
// tokens of its own. What an assistant says counts, with the mark that ends it.
void append_turn(Document& document, ChatFormat format, ChatRole role, std::string_view content);

}  // namespace accrue
