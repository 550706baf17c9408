#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "accrue/data/tokenizers/text_steps.h"
#include "accrue/data/tokenizers/tokenizer.h"

namespace accrue {

// What open_tokenizer() chooses from; one function per kind of file. `name` is for error texts, `contents` is the file.

// A tokenizer.json of Hugging Face tokenizers: byte-level and SentencePiece-like byte-pair encodings. Anything else in
// it is an error that names the part.
[[nodiscard]] std::unique_ptr<Tokenizer> tokenizer_of_json(std::string_view contents, const std::string& name);
// Lines of a token in base64 and its rank, which is its id. The number of lines tells which words and special tokens
// belong to it: GPT-2's (50,256 and 50,280), GPT-4's (100,256), GPT-4o's (199,998), Llama 3's (128,000), Qwen's
// (151,643); any other number gets the words of GPT-4 and <|endoftext|> as the id behind the last.
[[nodiscard]] std::unique_ptr<Tokenizer> tokenizer_of_ranks(std::string_view contents, const std::string& name);
// The tokenizer.json that a folder's vocab.json and merges.txt stand for: the files that GPT-2's and Qwen's tokenizers had
// before. What tokenizer_config.json, added_tokens.json and special_tokens_map.json beside them say is in it. An error if
// they are not of these two kinds, which cut text differently.
[[nodiscard]] std::string tokenizer_json_of_vocabulary(const std::filesystem::path& folder);
// Is this a vocab.json with a merges.txt beside it?
[[nodiscard]] bool is_vocabulary_file(const std::filesystem::path& file);
// A SentencePiece model of any kind. With special tokens, a text begins with the model's begin of sentence, if it has
// one.
[[nodiscard]] std::unique_ptr<Tokenizer> tokenizer_of_sentencepiece(std::string_view contents, const std::string& name);

// Does a file begin as a list of ranks does?
[[nodiscard]] bool looks_like_ranks(std::string_view contents);

}  // namespace accrue
