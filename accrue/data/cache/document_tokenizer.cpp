#include "accrue/data/cache/document_tokenizer.h"

#include <algorithm>

namespace accrue {
namespace {

// A tokenizer tells only what it makes of a whole text, so it is asked about a short one.
std::vector<int32_t> begin_of_text(const Tokenizer& tokenizer) {
    const std::vector<int32_t> bare = tokenizer.encode("a", Special::without);
    std::vector<int32_t> whole = tokenizer.encode("a", Special::with);
    whole.erase(std::search(whole.begin(), whole.end(), bare.begin(), bare.end()), whole.end());
    return whole;
}

}  // namespace

DocumentTokenizer::DocumentTokenizer(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer), begin_(begin_of_text(tokenizer)) {}

void DocumentTokenizer::operator()(const Document& document, PiecePlace place, TokenizedDocument& tokenized) const {
    tokenized.ids.clear();
    tokenized.counted.clear();
    const DocumentPart& first = document.parts.front();
    if (place == PiecePlace::first && !first.text.empty() && !first.has_markup) {
        tokenized.ids = begin_;
    }
    for (const DocumentPart& part : document.parts) {
        const std::vector<int32_t> more =
            part.text.empty() ? part.ids : ids_of(part, &part == &first ? place : PiecePlace::first);
        tokenized.ids.insert(tokenized.ids.end(), more.begin(), more.end());
        tokenized.counted.resize(tokenized.ids.size(), part.counted ? 1 : 0);
    }
    if (!document.unfinished && !tokenized.ids.empty() && tokenized.ids.back() == tokenizer_.end_of_document()) {
        tokenized.ids.pop_back();
        tokenized.counted.pop_back();
    }
}

std::vector<int32_t> DocumentTokenizer::ids_of(const DocumentPart& part, PiecePlace place) const {
    if (part.has_markup) {
        return tokenizer_.encode(part.text, Special::without);
    }
    return place == PiecePlace::later ? tokenizer_.encode_later_part(part.text) : tokenizer_.encode_plain(part.text);
}

void tokenize_document(const Tokenizer& tokenizer, const Document& document, PiecePlace place,
                       TokenizedDocument& tokenized) {
    DocumentTokenizer{tokenizer}(document, place, tokenized);
}

}  // namespace accrue
