#include "accrue/cli/gguf_vocabulary.h"

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/data/byte_alphabet.h"
#include "accrue/data/tokenizer.h"

namespace accrue {
namespace {

using Json = nlohmann::json;

// The patterns by which tokenizers cut text into words, under llama.cpp's names for them.
constexpr const char* kLlama3Pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                                       R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                                      R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// llama.cpp's name for a way of cutting text; empty if it is none of those known here.
std::string pre_tokenizer_name(const Json& pre) {
    if (pre.value("type", "") == "ByteLevel") {
        return pre.value("use_regex", true) && !pre.value("add_prefix_space", true) ? "gpt-2" : "";
    }
    if (pre.value("type", "") != "Sequence" || pre.at("pretokenizers").size() != 2) {
        return "";
    }
    const Json& split = pre.at("pretokenizers").at(0);
    const Json& bytes = pre.at("pretokenizers").at(1);
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

// The id that a template puts before a text, if it puts one.
std::optional<uint32_t> begin_of(const Json& processor) {
    if (!processor.is_object()) {
        return std::nullopt;
    }
    if (processor.value("type", "") == "Sequence") {
        for (const Json& part : processor.at("processors")) {
            if (const auto begin = begin_of(part)) {
                return begin;
            }
        }
    }
    if (processor.value("type", "") != "TemplateProcessing" || processor.at("single").empty() ||
        !processor.at("single").at(0).contains("SpecialToken")) {
        return std::nullopt;
    }
    const std::string name = processor.at("single").at(0).at("SpecialToken").at("id");
    return processor.at("special_tokens").at(name).at("ids").at(0).get<uint32_t>();
}

GgufTokenizer read_vocabulary(const Json& json, const std::string& pre, const std::string& file) {
    GgufTokenizer tokenizer{.model = "gpt2", .pre = pre, .tokens = {}};
    for (const auto& [token, id] : json.at("model").at("vocab").items()) {
        set_token(tokenizer, id.get<size_t>(), token, GgufTokenizer::normal, file);
    }
    for (const Json& added : json.value("added_tokens", Json::array())) {
        const auto id = added.at("id").get<size_t>();
        const std::string text = added.at("content");
        set_token(tokenizer, id, text,
                  added.value("special", false) ? GgufTokenizer::control : GgufTokenizer::user_defined, file);
        // The names by which the families' tokenizers end a document.
        if (text == "<|endoftext|>" || text == "<|end_of_text|>") {
            tokenizer.end = static_cast<uint32_t>(id);
        }
    }
    for (const Json& merge : json.at("model").at("merges")) {
        tokenizer.merges.push_back(merge.is_string()
                                       ? merge.get<std::string>()
                                       : cat(merge.at(0).get<std::string>(), " ", merge.at(1).get<std::string>()));
    }
    tokenizer.begin = begin_of(json.value("post_processor", Json()));
    tokenizer.add_begin = tokenizer.begin.has_value();
    return tokenizer;
}

}  // namespace

GgufVocabulary vocabulary_of_json(const std::filesystem::path& file) {
    try {
        const Json json = Json::parse(read_text(file));
        if (json.at("model").value("type", "") != "BPE" || !json.at("pre_tokenizer").is_object()) {
            return {.tokenizer = std::nullopt, .reason = cat(file.string(), " is no byte-level BPE")};
        }
        const std::string pre = pre_tokenizer_name(json.at("pre_tokenizer"));
        if (pre.empty()) {
            return {.tokenizer = std::nullopt,
                    .reason = cat(file.string(), " cuts text in a way that has no name in llama.cpp")};
        }
        return {.tokenizer = read_vocabulary(json, pre, file.string()), .reason = ""};
    } catch (const Json::exception& fault) {
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
