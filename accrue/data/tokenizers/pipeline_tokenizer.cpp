#include "accrue/data/tokenizers/pipeline_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

namespace accrue {
namespace {

std::string run_all(const std::vector<Normalizer>& steps, std::string text, PieceStart start) {
    for (const Normalizer& step : steps) {
        if (!step.is_prefix || start != PieceStart::later_part) {
            text = step(std::move(text));
        }
    }
    return text;
}

std::vector<AddedToken> found_as_given(std::vector<AddedToken> tokens) {
    std::erase_if(tokens, [](const AddedToken& token) { return token.normalized; });
    return tokens;
}

// Tokens that are looked for in normalized text are normalized too.
std::vector<AddedToken> found_normalized(std::vector<AddedToken> tokens, const std::vector<Normalizer>& steps) {
    std::erase_if(tokens, [](const AddedToken& token) { return !token.normalized; });
    for (AddedToken& token : tokens) {
        token.content = run_all(steps, std::move(token.content), PieceStart::inside);
    }
    return tokens;
}

std::vector<AddedToken> without_special(std::vector<AddedToken> tokens) {
    std::erase_if(tokens, [](const AddedToken& token) { return token.special; });
    return tokens;
}

class PipelineTokenizer final : public Tokenizer {
public:
    explicit PipelineTokenizer(TokenizerParts parts)
        : model_(parts.model),
          as_given_(found_as_given(parts.added_tokens)),
          normalized_(found_normalized(parts.added_tokens, parts.normalizers)),
          plain_as_given_(found_as_given(without_special(parts.added_tokens))),
          plain_normalized_(found_normalized(without_special(parts.added_tokens), parts.normalizers)),
          special_(parts.texts.size()),
          parts_(std::move(parts)) {
        for (const AddedToken& token : parts_.added_tokens) {
            special_[static_cast<size_t>(token.id)] = token.special;
        }
        // The model has made its own tables of them.
        parts_.model = {};
    }

    [[nodiscard]] std::vector<int32_t> encode(std::string_view text, Special special) const override {
        std::vector<int32_t> ids;
        ids.reserve(text.size() / 3 + parts_.before.size() + parts_.behind.size());
        if (special == Special::with) {
            ids = parts_.before;
        }
        append({text, PieceStart::text_begin}, as_given_, normalized_, ids);
        if (special == Special::with) {
            ids.insert(ids.end(), parts_.behind.begin(), parts_.behind.end());
        }
        return ids;
    }

    [[nodiscard]] std::vector<int32_t> encode_plain(std::string_view text) const override {
        return plain_ids_of({text, PieceStart::text_begin});
    }
    [[nodiscard]] std::vector<int32_t> encode_later_part(std::string_view text) const override {
        return plain_ids_of({text, PieceStart::later_part});
    }

    [[nodiscard]] std::string decode(std::span<const int32_t> ids, Special special) const override {
        std::vector<std::string> tokens;
        tokens.reserve(ids.size());
        for (const int32_t id : ids) {
            if (has(id) && (special == Special::with || !special_[static_cast<size_t>(id)])) {
                tokens.push_back(parts_.texts[static_cast<size_t>(id)]);
            }
        }
        for (const TextDecoder& step : parts_.decoders) {
            tokens = step.rewrite(std::move(tokens));
        }
        std::string text;
        for (const std::string& token : tokens) {
            if (parts_.decoders.empty() && &token != &tokens.front()) {
                text += ' ';
            }
            text += token;
        }
        return text;
    }

    [[nodiscard]] bool rewrites_text() const override { return accrue::rewrites_text(parts_.decoders); }
    [[nodiscard]] int64_t vocabulary() const override { return static_cast<int64_t>(parts_.texts.size()); }
    [[nodiscard]] std::optional<int32_t> end_of_document() const override { return parts_.end_of_document; }
    [[nodiscard]] std::string token_text(int32_t id) const override {
        return has(id) ? parts_.texts[static_cast<size_t>(id)] : std::string();
    }
    [[nodiscard]] std::string fingerprint() const override { return parts_.fingerprint; }

private:
    [[nodiscard]] bool has(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < parts_.texts.size(); }

    [[nodiscard]] std::vector<int32_t> plain_ids_of(const Piece& whole) const {
        std::vector<int32_t> ids;
        ids.reserve(whole.text.size() / 3);
        append(whole, plain_as_given_, plain_normalized_, ids);
        return ids;
    }

    static PieceStart start_of(std::string_view segment, const Piece& whole) {
        return segment.data() == whole.text.data() ? whole.start : PieceStart::inside;
    }

    void append(const Piece& whole, const AddedTokenFinder& as_given, const AddedTokenFinder& normalized,
                std::vector<int32_t>& ids) const {
        Merger merger(model_.merges());
        for (const AddedTokenFinder::Segment& segment : as_given.split(whole.text)) {
            const PieceStart start = start_of(segment.text, whole);
            if (segment.id >= 0) {
                ids.push_back(segment.id);
            } else if (parts_.normalizers.empty()) {
                append_normalized({segment.text, start}, normalized, merger, ids);
            } else {
                const std::string changed = run_all(parts_.normalizers, std::string(segment.text), start);
                append_normalized({changed, start}, normalized, merger, ids);
            }
        }
    }

    void append_normalized(const Piece& whole, const AddedTokenFinder& normalized, Merger& merger,
                           std::vector<int32_t>& ids) const {
        const PieceSink sink = [&](const Piece& piece) { model_.append(piece.text, merger, ids); };
        for (const AddedTokenFinder::Segment& segment : normalized.split(whole.text)) {
            if (segment.id >= 0) {
                ids.push_back(segment.id);
            } else {
                split_by_all(parts_.splitters, {segment.text, start_of(segment.text, whole)}, sink);
            }
        }
    }

    BpeModel model_;
    AddedTokenFinder as_given_;
    AddedTokenFinder normalized_;
    // The same without special tokens, for text that must not be able to spell them.
    AddedTokenFinder plain_as_given_;
    AddedTokenFinder plain_normalized_;
    std::vector<bool> special_;
    TokenizerParts parts_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerParts parts) {
    return std::make_unique<PipelineTokenizer>(std::move(parts));
}

std::optional<int32_t> end_of_document_of(const std::vector<AddedToken>& tokens) {
    constexpr std::array<std::string_view, 6> kNames = {"<|endoftext|>", "<|end_of_text|>", "</s>",
                                                        "<eos>",         "<|eos|>",         "<｜end▁of▁sentence｜>"};
    for (const std::string_view name : kNames) {
        const auto found =
            std::find_if(tokens.begin(), tokens.end(), [&](const AddedToken& token) { return token.content == name; });
        if (found != tokens.end()) {
            return found->id;
        }
    }
    return std::nullopt;
}

}  // namespace accrue
