#include "accrue/data/tokenizers/gguf_vocabulary.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/data/tokenizers/byte_alphabet.h"
#include "accrue/data/tokenizers/gguf_sentencepiece.h"
#include "accrue/data/tokenizers/pipeline_tokenizer.h"
#include "accrue/data/tokenizers/tokenizer.h"
#include "accrue/data/tokenizers/tokenizer_files.h"

namespace accrue {
namespace {

using SortedJson = nlohmann::json;

// The patterns by which tokenizers cut text into words, under llama.cpp's names for them.
constexpr const char* kLlama3Pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                                       R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                                      R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// llama.cpp's name for a way of cutting text; empty if it is none of those known here.
std::string pre_tokenizer_name(const SortedJson& pre) {
    if (pre.value("type", "") == "ByteLevel") {
        return pre.value("use_regex", true) && !pre.value("add_prefix_space", true) ? "gpt-2" : "";
    }
    if (pre.value("type", "") != "Sequence" || pre.at("pretokenizers").size() != 2) {
        return "";
    }
    const SortedJson& split = pre.at("pretokenizers").at(0);
    const SortedJson& bytes = pre.at("pretokenizers").at(1);
    if (split.value("type", "") != "Split" || bytes.value("type", "") != "ByteLevel" ||
        bytes.value("use_regex", true)) {
        return "";
    }
    const std::string pattern = split.at("pattern").value("Regex", "");
    return pattern == kLlama3Pattern ? "llama-bpe" : (pattern == kQwen2Pattern ? "qwen2" : "");
}

void set_token(GgufTokenizer& tokenizer, size_t id, const std::string& text, int32_t type, const std::string& file) {
    constexpr size_t kMostTokens = size_t{1} << 24;
    if (id >= kMostTokens) {
        throw Error(cat(file, ": token ", text, " has the id ", id, ", which is too large."));
    }
    if (id >= tokenizer.tokens.size()) {
        for (size_t gap = tokenizer.tokens.size(); gap <= id; ++gap) {
            tokenizer.tokens.push_back(cat("[PAD", gap, "]"));
        }
        tokenizer.types.resize(id + 1, GgufTokenizer::unused);
    }
    tokenizer.tokens[id] = text;
    tokenizer.types[id] = type;
}

// What a template puts around a text.
struct Around {
    std::optional<uint32_t> before;
    std::optional<uint32_t> behind;
};

std::optional<uint32_t> special_of(const SortedJson& processor, const SortedJson& piece) {
    if (!piece.contains("SpecialToken")) {
        return std::nullopt;
    }
    const std::string name = piece.at("SpecialToken").at("id");
    return processor.at("special_tokens").at(name).at("ids").at(0).get<uint32_t>();
}

Around around_of(const SortedJson& processor) {
    Around around;
    if (!processor.is_object()) {
        return around;
    }
    if (processor.value("type", "") == "Sequence") {
        for (const SortedJson& part : processor.at("processors")) {
            const Around found = around_of(part);
            around.before = found.before ? found.before : around.before;
            around.behind = found.behind ? found.behind : around.behind;
        }
    }
    if (processor.value("type", "") == "TemplateProcessing" && !processor.at("single").empty()) {
        around.before = special_of(processor, processor.at("single").front());
        around.behind = special_of(processor, processor.at("single").back());
    }
    return around;
}

// What llama.cpp would do otherwise than the file says; empty if nothing. It knows no normalizers here; NFC, which
// Qwen's files have, is left out by its own converter too. Whole words first is what it does for Llama 3 and only there.
std::string difference_of(const SortedJson& json, const std::string& pre) {
    const SortedJson normalizer = json.value("normalizer", SortedJson());
    if (!normalizer.is_null() && normalizer.value("type", "") != "NFC") {
        return "rewrites text before it cuts it, which llama.cpp does not";
    }
    if (json.at("model").value("ignore_merges", false) && pre != "llama-bpe") {
        return "takes whole words before it merges, which llama.cpp does for Llama 3's way of cutting only";
    }
    return "";
}

GgufVocabulary byte_level_vocabulary(const SortedJson& json, const std::filesystem::path& file) {
    const std::string pre = pre_tokenizer_name(json.at("pre_tokenizer"));
    if (pre.empty()) {
        return {.tokenizer = std::nullopt,
                .reason = cat(file.string(), " cuts text in a way that has no name in llama.cpp")};
    }
    if (const std::string difference = difference_of(json, pre); !difference.empty()) {
        return {.tokenizer = std::nullopt, .reason = cat(file.string(), " ", difference)};
    }
    GgufTokenizer tokenizer = read_tokens(json, file.string());
    tokenizer.model = "gpt2";
    tokenizer.pre = pre;
    for (const SortedJson& merge : json.at("model").at("merges")) {
        tokenizer.merges.push_back(merge.is_string()
                                       ? merge.get<std::string>()
                                       : cat(merge.at(0).get<std::string>(), " ", merge.at(1).get<std::string>()));
    }
    return {.tokenizer = std::move(tokenizer), .reason = ""};
}

bool is_byte_level(const SortedJson& pre) {
    if (!pre.is_object()) {
        return false;
    }
    const std::string type = pre.value("type", "");
    const SortedJson parts = type == "Sequence" ? pre.at("pretokenizers") : SortedJson::array();
    return type == "ByteLevel" || std::any_of(parts.begin(), parts.end(), is_byte_level);
}

}  // namespace

GgufTokenizer read_tokens(const SortedJson& json, const std::string& file) {
    GgufTokenizer tokenizer{.model = "", .pre = "", .tokens = {}};
    std::vector<AddedToken> added_tokens;
    for (const auto& [token, id] : json.at("model").at("vocab").items()) {
        set_token(tokenizer, id.get<size_t>(), token, GgufTokenizer::normal, file);
    }
    for (const SortedJson& added : json.value("added_tokens", SortedJson::array())) {
        const auto id = added.at("id").get<size_t>();
        const std::string text = added.at("content");
        set_token(tokenizer, id, text,
                  added.value("special", false) ? GgufTokenizer::control : GgufTokenizer::user_defined, file);
        added_tokens.push_back({.id = static_cast<int32_t>(id), .content = text});
    }
    if (const auto end = end_of_document_of(added_tokens)) {
        tokenizer.end = static_cast<uint32_t>(*end);
    }
    const Around around = around_of(json.value("post_processor", SortedJson()));
    tokenizer.begin = around.before;
    tokenizer.add_begin = around.before.has_value();
    tokenizer.add_end = around.behind.has_value() && around.behind == tokenizer.end;
    return tokenizer;
}

GgufVocabulary vocabulary_of_json(const std::filesystem::path& file) {
    try {
        const SortedJson json = SortedJson::parse(
            is_vocabulary_file(file) ? tokenizer_json_of_vocabulary(file.parent_path()) : read_text(file));
        if (json.at("model").value("type", "") != "BPE") {
            return {.tokenizer = std::nullopt, .reason = cat(file.string(), " is no byte-pair encoding")};
        }
        return is_byte_level(json.value("pre_tokenizer", SortedJson())) ? byte_level_vocabulary(json, file)
                                                                        : sentencepiece_vocabulary_of_json(json, file);
    } catch (const SortedJson::exception& fault) {
        throw Error(cat(file.string(), " is no tokenizer.json that can be read: ", fault.what()));
    }
}

GgufTokenizer vocabulary_of_bytes() {
    GgufTokenizer tokenizer{.model = "gpt2", .pre = "gpt-2", .tokens = {}};
    for (int byte = 0; byte < 256; ++byte) {
        const char letter = static_cast<char>(byte);
        tokenizer.tokens.push_back(spelled({&letter, 1}));
        tokenizer.types.push_back(GgufTokenizer::normal);
    }
    tokenizer.tokens.emplace_back("<|endoftext|>");
    tokenizer.types.push_back(GgufTokenizer::control);
    tokenizer.end = ByteTokenizer::kEnd;
    tokenizer.add_begin = false;
    return tokenizer;
}

}  // namespace accrue
