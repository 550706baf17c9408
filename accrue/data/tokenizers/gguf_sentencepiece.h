#pragma once

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

#include "accrue/data/tokenizers/gguf_vocabulary.h"

namespace accrue {

// Vocabularies of SentencePiece's kind in the words of llama.cpp, where the model is "llama": it merges the two
// neighbours whose joined text is the token of the best score, the leftmost first, marks spaces with "▁", and writes
// characters that are in no token as bytes. What works otherwise is named in the reason.

// Of a SentencePiece model file.
[[nodiscard]] GgufVocabulary vocabulary_of_sentencepiece(const std::filesystem::path& file);

// Of a tokenizer.json whose model works on characters. A token's score is the place of its merge, counted down from 0;
// the merges must be all that its tokens allow, as they are in files that were made from a SentencePiece model.
[[nodiscard]] GgufVocabulary sentencepiece_vocabulary_of_json(const nlohmann::json& json,
                                                              const std::filesystem::path& file);

}  // namespace accrue
