#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "accrue/tensor/gguf_tokenizer.h"

namespace accrue {

// A vocabulary in llama.cpp's words, or why there is none.
struct GgufVocabulary {
    std::optional<GgufTokenizer> tokenizer;
    std::string reason;
};

// Of a tokenizer.json, or of a vocab.json with a merges.txt beside it, with byte-level pairs, cut as GPT-2, Llama 3 or Qwen 2 cut text, or of SentencePiece's kind. Others
// are named in the reason: llama.cpp knows ways of cutting only by name, and a wrong one would cut text otherwise than in
// training.
[[nodiscard]] GgufVocabulary vocabulary_of_json(const std::filesystem::path& file);

// Of the byte tokenizer: byte-level pairs without a pair.
[[nodiscard]] GgufTokenizer vocabulary_of_bytes();

// What all kinds of tokenizer.json share: tokens, their types, and what stands around a text.
[[nodiscard]] GgufTokenizer read_tokens(const nlohmann::json& json, const std::string& file);

}  // namespace accrue
