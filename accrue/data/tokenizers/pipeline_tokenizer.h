#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/data/tokenizers/added_tokens.h"
#include "accrue/data/tokenizers/bpe_model.h"
#include "accrue/data/tokenizers/text_steps.h"
#include "accrue/data/tokenizers/tokenizer.h"

namespace accrue {

// All that a tokenizer of byte-pair encodings is made of, in the order in which a text passes through it.
struct TokenizerParts {
    std::vector<AddedToken> added_tokens;
    std::vector<Normalizer> normalizers;
    std::vector<Splitter> splitters;
    BpeParts model;
    // Put around a text with special tokens.
    std::vector<int32_t> before;
    std::vector<int32_t> behind;
    // None: tokens are joined by spaces.
    std::vector<TextDecoder> decoders;
    // The vocabulary's spelling of each id, added tokens too; empty where there is no token.
    std::vector<std::string> texts;
    std::optional<int32_t> end_of_document;
    std::string fingerprint;
};

[[nodiscard]] std::unique_ptr<Tokenizer> make_tokenizer(TokenizerParts parts);

// The special token that usually ends a document, by its name: <|endoftext|>, </s> and the like.
[[nodiscard]] std::optional<int32_t> end_of_document_of(const std::vector<AddedToken>& tokens);

}  // namespace accrue
