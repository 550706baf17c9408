#include "accrue/data/tokenizers/sentencepiece_bpe.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "accrue/data/tokenizers/unicode.h"

namespace accrue {
namespace {

using ModelPiece = SentencePieceModel::Piece;
using PieceType = SentencePieceModel::PieceType;

constexpr std::string_view kMark = "\u2581";
constexpr std::string_view kReplacement = "\uFFFD";

bool is_one_character(std::string_view text) {
    return !text.empty() && character_at(text, 0).size == text.size();
}

bool leaves_characters(const SentencePieceModel& model) {
    return model.kind == SentencePieceModel::Kind::bpe && !model.replaces_characters && !model.remove_extra_spaces &&
           model.escape_spaces && !model.spaces_end_words;
}

using Texts = std::unordered_set<std::string_view>;

bool is_reserved(const ModelPiece& piece) {
    return piece.type == PieceType::unknown || piece.type == PieceType::control || piece.type == PieceType::byte;
}

Texts texts_of(const SentencePieceModel& model, const std::function<bool(const ModelPiece&)>& wanted) {
    Texts texts;
    for (const ModelPiece& piece : model.pieces) {
        if (wanted(piece)) {
            texts.insert(piece.text);
        }
    }
    return texts;
}

bool has_all_characters(const Texts& pieces, std::string_view text) {
    for (size_t place = 0; place < text.size();) {
        const size_t size = character_at(text, place).size;
        if (pieces.count(text.substr(place, size)) == 0) {
            return false;
        }
        place += size;
    }
    return true;
}

// Can all that the library does with such a vocabulary be said in rules for pairs of ids? The library merges texts, not
// ids; that is the same where each character of a piece is a piece itself and no text means two pieces.
bool has_plain_pieces(const SentencePieceModel& model) {
    const Texts normal = texts_of(model, [](const ModelPiece& piece) { return piece.type == PieceType::normal; });
    const Texts reserved = texts_of(model, is_reserved);
    const auto is_plain = [&](const ModelPiece& piece) {
        if (!is_utf8(piece.text) || piece.text.find('\0') != std::string::npos) {
            return false;
        }
        if (is_reserved(piece)) {
            return !is_one_character(piece.text);
        }
        if (piece.type == PieceType::normal && (!has_all_characters(normal, piece.text) || std::isnan(piece.score))) {
            return false;
        }
        return piece.type != PieceType::unused && reserved.count(piece.text) == 0;
    };
    return std::all_of(model.pieces.begin(), model.pieces.end(), is_plain);
}

// The library looks at no more than 64 symbols that are beginnings of each other.
bool has_short_chains(const SentencePieceModel& model) {
    constexpr size_t kMostSymbols = 64;
    const Texts symbols =
        texts_of(model, [](const ModelPiece& piece) { return piece.type == PieceType::user_defined; });
    return std::all_of(symbols.begin(), symbols.end(), [&](std::string_view symbol) {
        size_t beginnings = 0;
        for (size_t size = 1; size <= symbol.size(); ++size) {
            beginnings += symbols.count(symbol.substr(0, size));
        }
        return beginnings < kMostSymbols;
    });
}

// The best score is rank 0; pieces of one score share a rank, so that the leftmost of them is merged first, as the
// library does.
std::unordered_map<float, int32_t> ranks_of_scores(const SentencePieceModel& model) {
    std::set<float, std::greater<>> scores;
    for (const ModelPiece& piece : model.pieces) {
        scores.insert(piece.score);
    }
    std::unordered_map<float, int32_t> ranks;
    for (const float score : scores) {
        ranks.emplace(score, static_cast<int32_t>(ranks.size()));
    }
    return ranks;
}

// All ways in which two pieces become a third.
std::vector<MergeRule> rules_of(const SentencePieceModel& model,
                                const std::vector<std::pair<std::string, int32_t>>& tokens) {
    const std::unordered_map<float, int32_t> ranks = ranks_of_scores(model);
    const TokenTable ids(tokens);
    std::vector<MergeRule> rules;
    for (const auto& [text, id] : tokens) {
        const std::string_view whole = text;
        const int32_t rank = ranks.at(model.pieces[static_cast<size_t>(id)].score);
        for (size_t cut = character_at(whole, 0).size; cut < whole.size(); cut += character_at(whole, cut).size) {
            const int32_t left = ids.find(whole.substr(0, cut));
            const int32_t right = ids.find(whole.substr(cut));
            if (left >= 0 && right >= 0) {
                rules.push_back({left, right, id, rank});
            }
        }
    }
    return rules;
}

std::vector<int32_t> byte_tokens_of(const SentencePieceModel& model) {
    std::unordered_map<std::string_view, int32_t> ids;
    for (size_t id = 0; id < model.pieces.size(); ++id) {
        if (model.pieces[id].type == PieceType::byte) {
            ids.emplace(model.pieces[id].text, static_cast<int32_t>(id));
        }
    }
    std::vector<int32_t> tokens;
    for (int byte = 0; byte < 256; ++byte) {
        if (const auto found = ids.find(fmt::format("<0x{:02X}>", byte)); found != ids.end()) {
            tokens.push_back(found->second);
        }
    }
    return tokens;
}

// Spaces become marks, and each byte that is no UTF-8 becomes a replacement character.
std::string normalized_text(std::string_view text, bool with_prefix) {
    std::string result;
    result.reserve(text.size() + text.size() / 2 + kMark.size());
    if (with_prefix) {
        result += kMark;
    }
    for (size_t place = 0; place < text.size();) {
        const char letter = text[place];
        if (letter == ' ') {
            result += kMark;
            ++place;
        } else if (static_cast<unsigned char>(letter) < 0x80) {
            result.push_back(letter);
            ++place;
        } else {
            const Character character = character_at(text, place);
            result += character.value == Character::kInvalid ? kReplacement : text.substr(place, character.size);
            place += character.size;
        }
    }
    return result;
}

}  // namespace

std::optional<SentencePieceBpe> SentencePieceBpe::of(const SentencePieceModel& model) {
    if (!leaves_characters(model) || !has_plain_pieces(model) || !has_short_chains(model)) {
        return std::nullopt;
    }
    BpeParts parts{.symbols = BpeParts::Symbols::characters, .tokens = {}, .rules = {}, .byte_tokens = {}};
    std::vector<AddedToken> symbols;
    for (size_t place = 0; place < model.pieces.size(); ++place) {
        const ModelPiece& piece = model.pieces[place];
        const auto id = static_cast<int32_t>(place);
        if (piece.type == PieceType::normal) {
            parts.tokens.emplace_back(piece.text, id);
        } else if (piece.type == PieceType::user_defined) {
            symbols.push_back({.id = id, .content = piece.text});
        } else if (piece.type == PieceType::unknown) {
            parts.unknown = id;
        }
    }
    parts.rules = rules_of(model, parts.tokens);
    parts.fuse_unknown = true;
    if (model.byte_fallback) {
        parts.byte_tokens = byte_tokens_of(model);
    }
    return SentencePieceBpe(parts, std::move(symbols), model.add_prefix);
}

SentencePieceBpe::SentencePieceBpe(const BpeParts& parts, std::vector<AddedToken> symbols, bool add_prefix)
    : model_(parts), symbols_(std::move(symbols)), add_prefix_(add_prefix) {}

std::vector<int32_t> SentencePieceBpe::encode(std::string_view text, TextStart start) const {
    std::vector<int32_t> ids;
    if (text.empty()) {
        return ids;
    }
    ids.reserve(text.size() / 3);
    Merger merger(model_.merges());
    const std::string normalized = normalized_text(text, add_prefix_ && start == TextStart::begins);
    for (const AddedTokenFinder::Segment& segment : symbols_.split(normalized)) {
        if (segment.id >= 0) {
            ids.push_back(segment.id);
        } else {
            model_.append(segment.text, merger, ids);
        }
    }
    return ids;
}

}  // namespace accrue
