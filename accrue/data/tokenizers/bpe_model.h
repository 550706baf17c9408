#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "accrue/data/tokenizers/bpe_merges.h"
#include "accrue/data/tokenizers/token_table.h"

namespace accrue {

// What a byte-pair encoding is made of.
struct BpeParts {
    // What a text is before any rule was applied: its bytes, or its characters.
    enum class Symbols { bytes, characters };
    Symbols symbols = Symbols::bytes;
    // Each token's bytes, not spelled in any alphabet, and its id.
    std::vector<std::pair<std::string, int32_t>> tokens;
    std::vector<MergeRule> rules;
    // Stands for what is in no token; -1: that is left out.
    int32_t unknown = -1;
    // Neighbours that are unknown become one.
    bool fuse_unknown = false;
    // The tokens <0x00>..<0xFF>, where all are there: a character that is in no token becomes its bytes.
    std::vector<int32_t> byte_tokens;
    // A piece that is a token becomes that token, even if the rules would make something else of it.
    bool whole_pieces_first = false;
};

// Byte-pair encoding of pieces of text.
class BpeModel {
public:
    explicit BpeModel(const BpeParts& parts);

    [[nodiscard]] const MergeTable& merges() const { return merges_; }
    // Adds a piece's ids. The merger must be one of merges().
    void append(std::string_view piece, Merger& merger, std::vector<int32_t>& ids) const;

private:
    // The id of a character that is a token, or -1.
    [[nodiscard]] int32_t symbol_of(char32_t character) const;
    void append_symbols(std::string_view piece, std::vector<int32_t>& ids) const;
    void append_bytes(std::string_view piece, std::vector<int32_t>& ids) const;
    void append_characters(std::string_view piece, std::vector<int32_t>& ids) const;
    void fill_symbols(const BpeParts& parts);
    [[nodiscard]] std::vector<int32_t> all_symbols() const;

    static constexpr size_t kNearCharacters = 0x3000;

    BpeParts::Symbols symbols_;
    int32_t unknown_;
    bool fuse_unknown_;
    std::vector<int32_t> byte_tokens_;
    TokenTable tokens_;
    std::array<int32_t, 256> bytes_{};
    // Characters up to U+2FFF, which holds most scripts and the mark for a space; the others are in far_.
    std::vector<int32_t> near_;
    std::unordered_map<char32_t, int32_t> far_;
    MergeTable merges_;
    // By id: a piece that is this token becomes it at once, as the rules would find too. Makes most words one look-up.
    std::vector<bool> whole_;
};

}  // namespace accrue
