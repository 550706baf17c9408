#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrue/data/tokenizers/pattern.h"
#include "accrue/data/tokenizers/unicode.h"

namespace accrue {

// What a tokenizer does before its model and behind it, each as a list of steps. Steps keep nothing between calls, so
// several threads may run them.

// Rewrites a text.
struct Normalizer {
    std::function<std::string(std::string)> rewrite;
    // Only puts something before a text, which does not happen where a text goes on.
    bool is_prefix = false;
    [[nodiscard]] std::string operator()(std::string text) const { return rewrite(std::move(text)); }
};
// Puts a text before any text that is not empty.
[[nodiscard]] Normalizer prepend_step(std::string prefix);
// Replaces each place where the text or the pattern is found.
[[nodiscard]] Normalizer replace_step(std::string from, std::string to);
[[nodiscard]] Normalizer replace_step(Pattern from, std::string to);
[[nodiscard]] Normalizer normal_form_step(NormalForm form);

// Where a piece of a text begins: where the whole text does, where a later part of it does, or inside.
enum class PieceStart { text_begin, later_part, inside };

// A part of a normalized text.
struct Piece {
    std::string_view text;
    PieceStart start = PieceStart::inside;
};
using PieceSink = std::function<void(const Piece&)>;
// Cuts a piece and hands the parts on, in order.
using Splitter = std::function<void(const Piece&, const PieceSink&)>;

enum class KeepOfSplit { everything, matches, gaps };
// Cuts at the matches of a pattern and keeps matches, what is between them, or both.
[[nodiscard]] Splitter pattern_splitter(std::string_view pattern, KeepOfSplit keep);
// Puts a space before a piece that has none, unless a later part of a text begins there.
[[nodiscard]] Splitter prefix_space_splitter();
// Where the mark for a space is put before a piece that does not begin with one; never where a later part of a text
// begins.
enum class PrependMark { always, first_piece, never };
// Replaces spaces by a mark, and cuts before each mark if wanted.
enum class CutAtMarks { yes, no };
[[nodiscard]] Splitter mark_splitter(std::string mark, PrependMark prepend, CutAtMarks cut);
// Runs a piece through all splitters.
void split_by_all(const std::vector<Splitter>& splitters, const Piece& piece, const PieceSink& sink);

// Rewrites tokens on their way back to text; what is left is joined.
struct TextDecoder {
    // What it looks at: only the begin of a token; a token as a whole, so that it would make something else of a token
    // that goes on; or all tokens, to make one of them.
    enum class Sight { begin, token, all };
    std::function<std::vector<std::string>(std::vector<std::string>)> rewrite;
    Sight sight = Sight::token;
};
// Does a list of steps give another begin of a text when the text goes on?
[[nodiscard]] bool rewrites_text(const std::vector<TextDecoder>& steps);
// Tokens spelled in the byte alphabet to bytes.
[[nodiscard]] TextDecoder byte_level_decoder();
[[nodiscard]] TextDecoder replace_decoder(std::string from, std::string to);
// <0x0A> to a byte.
[[nodiscard]] TextDecoder byte_fallback_decoder();
// All tokens to one.
[[nodiscard]] TextDecoder fuse_decoder();
// Takes up to so many of a character from the begin and the end of each token.
struct Strip {
    char32_t character;
    size_t from_begin;
    size_t from_end;
};
[[nodiscard]] TextDecoder strip_decoder(const Strip& strip);
// Marks to spaces; in the first token to nothing, where encoding puts a mark there.
[[nodiscard]] TextDecoder mark_decoder(std::string mark, PrependMark prepend);

}  // namespace accrue
