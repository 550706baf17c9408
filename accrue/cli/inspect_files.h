#pragma once

#include <filesystem>
#include <string>

namespace accrue {

// What is in a file: safetensors, GGUF, a tokenizer or data. An error lists these if it is none of them.
[[nodiscard]] std::string file_text(const std::filesystem::path& file);

// Vocabulary, merges and special tokens of a tokenizer. A tokenizer.json is read plainly, so that one that is not
// supported can be looked at too.
[[nodiscard]] std::string tokenizer_text(const std::filesystem::path& file);

// The numbers, texts and truths at the top of a JSON object, a line each.
[[nodiscard]] std::string json_scalars_text(const std::string& json);

}  // namespace accrue
