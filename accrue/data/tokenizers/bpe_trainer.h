#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace accrue {

// A byte-level tokenizer of the GPT-2 kind, learned from texts: a tokenizer.json with <|endoftext|> as id 0, the 256
// bytes, and one token for each of the most frequent pairs. The same texts in the same order give the same tokenizer.
// Has fewer tokens than asked where no pair is left that occurs twice. Words of more than 256 bytes are counted in
// parts. Errors: fewer than 257 tokens asked; no text at all.
[[nodiscard]] std::string train_byte_level_bpe(std::span<const std::string> texts, int64_t vocabulary_size);

}  // namespace accrue
