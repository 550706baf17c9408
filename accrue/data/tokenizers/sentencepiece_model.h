#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace accrue {

// What is written in a SentencePiece model file, as far as encoding depends on it. The values of the enumerations are
// those of the file.
struct SentencePieceModel {
    enum class Kind { unigram = 1, bpe = 2, word = 3, character = 4 };
    enum class PieceType { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

    struct Piece {
        std::string text;
        float score = 0;
        PieceType type = PieceType::normal;
    };

    std::vector<Piece> pieces;
    Kind kind = Kind::unigram;
    // Are characters that are in no piece written as bytes?
    bool byte_fallback = false;
    // Is the mark for a space put before a text?
    bool add_prefix = true;
    bool remove_extra_spaces = true;
    bool escape_spaces = true;
    bool spaces_end_words = false;
    // Does a table say which characters are replaced by others?
    bool replaces_characters = false;
};

// Reads the file's contents, which are a protocol buffer; fields that encoding does not depend on are passed over.
// Nothing is checked but the form: the SentencePiece library refuses vocabularies that make no sense.
[[nodiscard]] SentencePieceModel read_sentencepiece_model(std::string_view contents, const std::string& name);

// The same model without the mark before a text. `contents` must be a whole model file.
[[nodiscard]] std::string without_prefix(std::string_view contents);

}  // namespace accrue
