#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/data/tokenizers/added_tokens.h"
#include "accrue/data/tokenizers/bpe_model.h"
#include "accrue/data/tokenizers/sentencepiece_model.h"

namespace accrue {

// Does a text begin here, or does it go on with one that was encoded before?
enum class TextStart { begins, continues };

// Encodes as the SentencePiece library does, id for id, but many times as fast (bench/tokenizer_bench.cpp). For models
// of pairs that leave characters as they are, which Llama 2's kind is. May be used from several threads at once.
class SentencePieceBpe {
public:
    // None where only the library knows what a model makes of a text.
    [[nodiscard]] static std::optional<SentencePieceBpe> of(const SentencePieceModel& model);

    // Control symbols that are spelled out in the text stay text.
    [[nodiscard]] std::vector<int32_t> encode(std::string_view text, TextStart start) const;

private:
    SentencePieceBpe(const BpeParts& parts, std::vector<AddedToken> symbols, bool add_prefix);

    BpeModel model_;
    // Symbols that a user defined: found before anything is merged, and never merged.
    AddedTokenFinder symbols_;
    bool add_prefix_;
};

}  // namespace accrue
