#pragma once

#include <cstdint>
#include <vector>

#include "accrue/data/cache/token_cache.h"
#include "accrue/data/documents/document.h"
#include "accrue/data/tokenizers/tokenizer.h"

namespace accrue {

// Puts documents through a tokenizer. Special tokens are recognised in a chat format's own marks only: in any other text
// they stay text. A document that begins with text gets what the tokenizer puts before a text;
// later pieces of it do not. An end token at its end is
// left out, because the samples bring it. May be called from several threads at once; needs the tokenizer to stay.
class DocumentTokenizer {
public:
    explicit DocumentTokenizer(const Tokenizer& tokenizer);
    void operator()(const Document& document, PiecePlace place, TokenizedDocument& tokenized) const;

private:
    [[nodiscard]] std::vector<int32_t> ids_of(const DocumentPart& part, PiecePlace place) const;

    const Tokenizer& tokenizer_;
    // What stands before a text, such as a begin of text.
    std::vector<int32_t> begin_;
};

// The same for a single document.
void tokenize_document(const Tokenizer& tokenizer, const Document& document, PiecePlace place,
                       TokenizedDocument& tokenized);

}  // namespace accrue
