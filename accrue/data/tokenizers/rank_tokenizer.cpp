#include <algorithm>
#include <charconv>

#include "accrue/base/error.h"
#include "accrue/base/hash.h"
#include "accrue/data/tokenizers/byte_alphabet.h"
#include "accrue/data/tokenizers/pipeline_tokenizer.h"
#include "accrue/data/tokenizers/tokenizer_files.h"
#include "accrue/data/tokenizers/word_scanner.h"

namespace accrue {
namespace {

// As in tokenizer_json.cpp: a larger one is more likely a broken file, and the table of ranks would take gigabytes.
constexpr int32_t kLargestRank = 4'000'000;

constexpr std::string_view kGpt4oWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct NamedId {
    std::string_view name;
    int32_t id;
};

// What a file of ranks does not say itself; the sizes and ids are those of tiktoken's and the models' own sources.
struct KnownVocabulary {
    size_t lines;
    std::string_view pattern;
    std::vector<NamedId> special;
    int32_t begin = -1;
};

KnownVocabulary vocabulary_with(size_t lines, int32_t next_id) {
    const std::vector<KnownVocabulary> known = {
        {50256, pattern_of(WordRule::gpt2), {{"<|endoftext|>", 50256}}},
        {50280, pattern_of(WordRule::gpt2), {{"<|endoftext|>", 50256}}},
        {100256,
         pattern_of(WordRule::llama3),
         {{"<|endoftext|>", 100257},
          {"<|fim_prefix|>", 100258},
          {"<|fim_middle|>", 100259},
          {"<|fim_suffix|>", 100260},
          {"<|endofprompt|>", 100276}}},
        {199998, kGpt4oWords, {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}},
        {128000,
         pattern_of(WordRule::llama3),
         {{"<|begin_of_text|>", 128000},
          {"<|end_of_text|>", 128001},
          {"<|start_header_id|>", 128006},
          {"<|end_header_id|>", 128007},
          {"<|eot_id|>", 128009}},
         128000},
        {151643,
         pattern_of(WordRule::qwen2),
         {{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}}},
    };
    const auto found =
        std::find_if(known.begin(), known.end(), [&](const KnownVocabulary& one) { return one.lines == lines; });
    return found != known.end() ? *found
                                : KnownVocabulary{lines, pattern_of(WordRule::llama3), {{"<|endoftext|>", next_id}}};
}

int base64_value(char letter) {
    constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t found = kLetters.find(letter);
    return found == std::string_view::npos ? -1 : static_cast<int>(found);
}

// Nothing if the text is no base64.
std::optional<std::string> bytes_of_base64(std::string_view text) {
    while (text.ends_with('=')) {
        text.remove_suffix(1);
    }
    std::string bytes;
    uint32_t bits = 0;
    int count = 0;
    for (const char letter : text) {
        const int value = base64_value(letter);
        if (value < 0) {
            return std::nullopt;
        }
        bits = bits << 6 | static_cast<uint32_t>(value);
        count += 6;
        if (count >= 8) {
            count -= 8;
            bytes.push_back(static_cast<char>(bits >> count));
        }
    }
    return bytes;
}

struct Line {
    std::string bytes;
    int32_t rank = -1;
};

std::optional<Line> read_line(std::string_view text) {
    const size_t space = text.find(' ');
    if (space == 0 || space == std::string_view::npos) {
        return std::nullopt;
    }
    std::optional<std::string> bytes = bytes_of_base64(text.substr(0, space));
    int32_t rank = -1;
    const char* const end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data() + space + 1, end, rank);
    if (!bytes || bytes->empty() || error != std::errc() || stopped != end || rank < 0 || rank > kLargestRank) {
        return std::nullopt;
    }
    return Line{*std::move(bytes), rank};
}

std::string_view take_line(std::string_view& contents) {
    const size_t end = std::min(contents.find('\n'), contents.size());
    std::string_view line = contents.substr(0, end);
    contents.remove_prefix(std::min(end + 1, contents.size()));
    if (line.ends_with('\r')) {
        line.remove_suffix(1);
    }
    return line;
}

std::vector<std::pair<std::string, int32_t>> read_tokens(std::string_view contents, const std::string& name) {
    std::vector<std::pair<std::string, int32_t>> tokens;
    for (int64_t number = 1; !contents.empty(); ++number) {
        const std::string_view text = take_line(contents);
        if (text.empty()) {
            continue;
        }
        std::optional<Line> line = read_line(text);
        if (!line) {
            throw Error(
                cat(name, " line ", number, " is not a token in base64, a space and a rank: ", text.substr(0, 80)));
        }
        tokens.emplace_back(std::move(line->bytes), line->rank);
    }
    return tokens;
}

// Any two neighbours that are a token together may become it.
std::vector<MergeRule> rules_of(std::span<const std::pair<std::string, int32_t>> tokens) {
    const TokenTable table(tokens);
    std::vector<MergeRule> rules;
    for (const auto& [bytes, id] : tokens) {
        for (size_t cut = 1; cut < bytes.size(); ++cut) {
            const int32_t left = table.find(std::string_view(bytes).substr(0, cut));
            const int32_t right = table.find(std::string_view(bytes).substr(cut));
            if (left >= 0 && right >= 0) {
                rules.push_back({left, right, id, id});
            }
        }
    }
    return rules;
}

void set_text(std::vector<std::string>& texts, int32_t id, std::string text) {
    if (static_cast<size_t>(id) >= texts.size()) {
        texts.resize(static_cast<size_t>(id) + 1);
    }
    texts[static_cast<size_t>(id)] = std::move(text);
}

}  // namespace

bool looks_like_ranks(std::string_view contents) {
    return contents.size() < 1'000'000'000 && read_line(take_line(contents)).has_value();
}

std::unique_ptr<Tokenizer> tokenizer_of_ranks(std::string_view contents, const std::string& name) {
    TokenizerParts parts;
    parts.fingerprint = hash_of(std::as_bytes(std::span(contents)));
    parts.model.tokens = read_tokens(contents, name);
    parts.model.rules = rules_of(parts.model.tokens);
    parts.model.whole_pieces_first = true;
    for (const auto& [bytes, id] : parts.model.tokens) {
        set_text(parts.texts, id, spelled(bytes));
    }
    const KnownVocabulary known = vocabulary_with(parts.model.tokens.size(), static_cast<int32_t>(parts.texts.size()));
    for (const NamedId& token : known.special) {
        parts.added_tokens.push_back({.id = token.id, .content = std::string(token.name), .special = true});
        set_text(parts.texts, token.id, std::string(token.name));
    }
    if (known.begin >= 0) {
        parts.before = {known.begin};
    }
    parts.splitters.push_back(pattern_splitter(known.pattern, KeepOfSplit::everything));
    parts.decoders.push_back(byte_level_decoder());
    parts.end_of_document = end_of_document_of(parts.added_tokens);
    return make_tokenizer(std::move(parts));
}

}  // namespace accrue
