#include "accrue/data/tokenizers/gguf_sentencepiece.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/data/tokenizers/sentencepiece_bpe.h"
#include "accrue/data/tokenizers/tokenizer_files.h"
#include "accrue/data/tokenizers/unicode.h"

namespace accrue {
namespace {

using SortedJson = nlohmann::json;
using IdsByText = std::unordered_map<std::string, size_t>;

constexpr std::string_view kSpaceMark = "\u2581";

GgufVocabulary none(const std::filesystem::path& file, const std::string& reason) {
    return {.tokenizer = std::nullopt, .reason = cat(file.string(), " ", reason)};
}

// llama.cpp looks for these in the text as it was given, before spaces are marked.
std::string with_spaces(std::string_view text) {
    std::string result;
    for (size_t place = 0; place < text.size();) {
        const bool mark = text.substr(place).starts_with(kSpaceMark);
        result += mark ? ' ' : text[place];
        place += mark ? kSpaceMark.size() : 1;
    }
    return result;
}

// Does a text begin with a mark? None where the file treats spaces in another way than llama.cpp.
std::optional<bool> adds_prefix(const SortedJson& normalizer, const SortedJson& pre) {
    if (!pre.is_null()) {
        if (!normalizer.is_null() || pre.value("type", "") != "Metaspace" ||
            pre.value("replacement", "") != kSpaceMark) {
            return std::nullopt;
        }
        return pre.contains("prepend_scheme") ? pre.at("prepend_scheme") != "never"
                                              : pre.value("add_prefix_space", true);
    }
    const SortedJson replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}};
    const SortedJson prepend = {{"type", "Prepend"}, {"prepend", kSpaceMark}};
    if (normalizer == replace) {
        return false;
    }
    if (normalizer.is_object() && normalizer.value("type", "") == "Sequence" &&
        normalizer.at("normalizers") == SortedJson::array({prepend, replace})) {
        return true;
    }
    return std::nullopt;
}

// Metaspace may cut text before each mark, and llama.cpp does not; that is the same where no token goes across.
bool cuts_matter(const SortedJson& pre, const IdsByText& vocabulary) {
    if (pre.is_null() || !pre.value("split", true)) {
        return false;
    }
    return std::any_of(vocabulary.begin(), vocabulary.end(),
                       [](const auto& token) { return token.first.find(kSpaceMark, 1) != std::string::npos; });
}

std::pair<std::string, std::string> parts_of(const SortedJson& merge) {
    if (merge.is_array()) {
        return {merge.at(0), merge.at(1)};
    }
    const std::string text = merge;
    const size_t space = text.find(' ');
    return {text.substr(0, space), text.substr(space + 1)};
}

// Counts down over what merges make; false where the order of the merges is not an order of tokens.
bool score_merges(const SortedJson& merges, const IdsByText& ids, GgufTokenizer& tokenizer,
                  std::set<std::pair<size_t, size_t>>& pairs) {
    size_t last = tokenizer.tokens.size();
    std::vector<bool> seen(tokenizer.tokens.size());
    float score = 0;
    for (const SortedJson& merge : merges) {
        const auto [left, right] = parts_of(merge);
        pairs.emplace(ids.at(left), ids.at(right));
        const size_t result = ids.at(left + right);
        if (result != last && seen[result]) {
            return false;
        }
        if (result != last) {
            tokenizer.scores[result] = score--;
        }
        seen[result] = true;
        last = result;
    }
    for (size_t id = 0; id < seen.size(); ++id) {
        if (!seen[id] && tokenizer.types[id] == GgufTokenizer::normal) {
            tokenizer.scores[id] = score--;
        }
    }
    return true;
}

// Are all pairs of tokens that make a token in the list of merges? llama.cpp merges them all.
bool has_all_merges(const GgufTokenizer& tokenizer, const IdsByText& ids,
                    const std::set<std::pair<size_t, size_t>>& pairs) {
    const auto normal = [&](std::string_view text) -> std::optional<size_t> {
        const auto found = ids.find(std::string(text));
        const bool is_normal = found != ids.end() && tokenizer.types[found->second] == GgufTokenizer::normal;
        return is_normal ? std::optional(found->second) : std::nullopt;
    };
    for (size_t id = 0; id < tokenizer.tokens.size(); ++id) {
        const std::string_view text = tokenizer.tokens[id];
        if (tokenizer.types[id] != GgufTokenizer::normal) {
            continue;
        }
        for (size_t cut = character_at(text, 0).size; cut < text.size(); cut += character_at(text, cut).size) {
            const auto left = normal(text.substr(0, cut));
            const auto right = normal(text.substr(cut));
            if (left && right && pairs.count({*left, *right}) == 0) {
                return false;
            }
        }
    }
    return true;
}

// Returns how many of the 256 byte tokens there are.
int mark_bytes(const IdsByText& ids, GgufTokenizer& tokenizer) {
    int found_bytes = 0;
    for (int byte = 0; byte < 256; ++byte) {
        if (const auto found = ids.find(fmt::format("<0x{:02X}>", byte)); found != ids.end()) {
            tokenizer.types[found->second] = GgufTokenizer::byte;
            ++found_bytes;
        }
    }
    return found_bytes;
}

}  // namespace

GgufVocabulary vocabulary_of_sentencepiece(const std::filesystem::path& file) {
    const std::string contents = read_text(file);
    if (looks_like_ranks(contents)) {
        return none(file, "is a list of ranks, which has no merges for llama.cpp");
    }
    const SentencePieceModel model = read_sentencepiece_model(contents, file.string());
    if (!SentencePieceBpe::of(model)) {
        return none(file, "is no SentencePiece model of pairs that leaves text as it is, and llama.cpp reads no other");
    }
    if (!model.byte_fallback) {
        return none(file, "has no tokens for bytes, without which llama.cpp cannot write unknown characters");
    }
    const std::unique_ptr<Tokenizer> opened = tokenizer_of_sentencepiece(contents, file.string());
    GgufTokenizer tokenizer{.model = "llama", .pre = "default", .tokens = {}};
    for (size_t id = 0; id < model.pieces.size(); ++id) {
        const SentencePieceModel::Piece& piece = model.pieces[id];
        const bool user_defined = piece.type == SentencePieceModel::PieceType::user_defined;
        tokenizer.tokens.push_back(user_defined ? with_spaces(piece.text) : piece.text);
        tokenizer.scores.push_back(piece.score);
        // The numbers of the two formats are the same.
        tokenizer.types.push_back(static_cast<int32_t>(piece.type));
        if (piece.type == SentencePieceModel::PieceType::unknown) {
            tokenizer.unknown = static_cast<uint32_t>(id);
        }
    }
    const std::vector<int32_t> around = opened->encode("", Special::with);
    if (!around.empty()) {
        tokenizer.begin = static_cast<uint32_t>(around.front());
    }
    if (const auto end = opened->end_of_document()) {
        tokenizer.end = static_cast<uint32_t>(*end);
    }
    tokenizer.add_begin = tokenizer.begin.has_value();
    tokenizer.add_end = false;
    tokenizer.add_space_prefix = model.add_prefix;
    return {.tokenizer = std::move(tokenizer), .reason = ""};
}

GgufVocabulary sentencepiece_vocabulary_of_json(const SortedJson& json, const std::filesystem::path& file) {
    const SortedJson& model = json.at("model");
    const SortedJson pre = json.value("pre_tokenizer", SortedJson());
    GgufTokenizer tokenizer = read_tokens(json, file.string());
    tokenizer.model = "llama";
    tokenizer.pre = "default";
    const IdsByText ids = model.at("vocab").get<IdsByText>();
    const std::optional<bool> prefix = adds_prefix(json.value("normalizer", SortedJson()), pre);
    if (!prefix || cuts_matter(pre, ids)) {
        return none(file, "marks or cuts at spaces in a way that llama.cpp does not");
    }
    if (!model.value("byte_fallback", false) || mark_bytes(ids, tokenizer) != 256) {
        return none(file, "has no tokens for bytes, without which llama.cpp cannot write unknown characters");
    }
    if (model.contains("unk_token") && model.at("unk_token").is_string()) {
        tokenizer.unknown = static_cast<uint32_t>(ids.at(model.at("unk_token")));
        tokenizer.types[*tokenizer.unknown] = GgufTokenizer::unknown_token;
    }
    tokenizer.scores.assign(tokenizer.tokens.size(), 0.0F);
    std::set<std::pair<size_t, size_t>> pairs;
    if (model.value("ignore_merges", false) || !score_merges(model.at("merges"), ids, tokenizer, pairs) ||
        !has_all_merges(tokenizer, ids, pairs)) {
        return none(file, "merges tokens in an order that scores of tokens, which llama.cpp wants, cannot say");
    }
    for (size_t id = 0; id < tokenizer.tokens.size(); ++id) {
        if (tokenizer.types[id] == GgufTokenizer::user_defined) {
            tokenizer.tokens[id] = with_spaces(tokenizer.tokens[id]);
        }
    }
    tokenizer.add_space_prefix = *prefix;
    return {.tokenizer = std::move(tokenizer), .reason = ""};
}

}  // namespace accrue
