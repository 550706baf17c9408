#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/base/words.h"
#include "accrue/data/documents/document.h"

namespace accrue {

// How a conversation becomes text:
//   chatml  <|im_start|>role\ncontent<|im_end|>\n
//   llama3  <|begin_of_text|> once, then <|start_header_id|>role<|end_header_id|>\n\ncontent<|eot_id|>, where white
//           space around a content is left out, as Llama 3's own template does
//   plain   User: content\nAssistant: content\n
enum class ChatFormat { chatml, llama3, plain };

[[nodiscard]] constexpr auto words_for(ChatFormat) {
    return std::to_array<Word<ChatFormat>>(
        {{"chatml", ChatFormat::chatml}, {"llama3", ChatFormat::llama3}, {"plain", ChatFormat::plain}});
}

// Who speaks. Only these, because the name of a role stands among the marks, where special tokens are recognised.
enum class ChatRole { system, user, assistant };

// The format of that name; an error lists the formats there are.
[[nodiscard]] ChatFormat chat_format_of(const std::string& name);
[[nodiscard]] std::vector<ChatFormat> chat_formats();
// "chatml, llama3, plain"
[[nodiscard]] std::string chat_format_names();
// The role of that name, if there is one.
[[nodiscard]] std::optional<ChatRole> chat_role_of(std::string_view name);

// Adds a turn: its marks as parts with has_markup, its content as a part without, so that no content can bring special
// tokens of its own. What an assistant says counts, with the mark that ends it.
void append_turn(Document& document, ChatFormat format, ChatRole role, std::string_view content);

// What stands before an answer to come; what its text begins with; and the text that ends it.
[[nodiscard]] DocumentPart answer_begin(ChatFormat format);
[[nodiscard]] std::string answer_prefix(ChatFormat format);
[[nodiscard]] std::string answer_end(ChatFormat format);
// The marks that are special tokens in the vocabularies of models that speak the format.
[[nodiscard]] std::vector<std::string> special_marks(ChatFormat format);

}  // namespace accrue
