#pragma once

#include <cstdint>
#include <string>

namespace accrue {

// Text that is like English for a tokenizer: 120,000 words made of syllables, the word of rank r with a frequency of 1/r
// (Zipf), sentences with capital letters, commas and numbers, lines of a few sentences. The same seed, the same text; the
// words are the same for all seeds.
[[nodiscard]] std::string english_like_text(uint64_t seed, size_t bytes);

// The tokens of a byte-level tokenizer.json as a SentencePiece model (a file's contents) and as a tokenizer.json of
// SentencePiece's kind: the mark for a space instead of its byte, 256 tokens for bytes, tokens that are no text left out.
[[nodiscard]] std::string sentencepiece_model_of(const std::string& byte_level_json);
[[nodiscard]] std::string sentencepiece_json_of(const std::string& byte_level_json);

}  // namespace accrue
