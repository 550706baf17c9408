#include <unordered_map>

#include <fmt/format.h>

#include "accrue/base/error.h"
#include "accrue/base/hash.h"
#include "accrue/data/tokenizers/byte_alphabet.h"
#include "accrue/data/tokenizers/tokenizer_files.h"
#include "accrue/data/tokenizers/tokenizer_json_steps.h"

namespace accrue {
namespace {

using Json = nlohmann::json;

// Larger ids are more likely a broken file than a vocabulary, and a table of so many words would take gigabytes. The
// largest vocabulary we know of is Gemma's, with 262,144.
constexpr int64_t kLargestId = 4'000'000;

// A real file has less than ten levels. What has thousands would overflow the stack: the library copies and writes
// level by level.
constexpr int kMostLevels = 100;

// Null, absent, false, an empty text and zero all mean that a feature is off.
bool is_off(const Json& model, const char* key) {
    if (!model.contains(key)) {
        return true;
    }
    const Json& value = model.at(key);
    return value.is_null() || value == false || value == Json("") || value == 0.0;
}

int32_t checked_id(const Json& json, const std::string& token) {
    const bool whole = json.is_number_integer() && (!json.is_number_unsigned() || json.get<uint64_t>() <= kLargestId);
    if (!whole || json.get<int64_t>() < 0) {
        throw Error(cat("the token ", token, " has the id ", json.dump(), ", which is not in 0..", kLargestId));
    }
    return json.get<int32_t>();
}

// The model of a tokenizer.json.
class ModelReader {
public:
    ModelReader(const Json& model, TokenizerParts& parts) : model_(model), parts_(parts) {}

    void read() {
        if (const std::string type = model_.value("type", "BPE"); type != "BPE") {
            refuse_part("the model", type);
        }
        for (const char* feature : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
            if (!is_off(model_, feature)) {
                refuse_part("the model's", cat(feature, " = ", model_.at(feature).dump()));
            }
        }
        read_vocabulary();
        read_merges();
        parts_.model.whole_pieces_first = !is_off(model_, "ignore_merges");
        parts_.model.fuse_unknown = !is_off(model_, "fuse_unk");
        if (!is_off(model_, "unk_token")) {
            parts_.model.unknown = id_of(model_.at("unk_token").get<std::string>(), "unk_token");
        }
        if (!is_off(model_, "byte_fallback")) {
            read_byte_tokens();
        }
    }

private:
    [[nodiscard]] int32_t id_of(const std::string& token, const std::string& what) const {
        const auto found = ids_.find(token);
        if (found == ids_.end()) {
            throw Error(cat(what, " names ", token, ", which is not in the vocabulary"));
        }
        return found->second;
    }

    void read_vocabulary() {
        const bool bytes = parts_.model.symbols == BpeParts::Symbols::bytes;
        for (const auto& [text, json] : model_.at("vocab").items()) {
            const int32_t id = checked_id(json, text);
            ids_.emplace(text, id);
            if (static_cast<size_t>(id) >= parts_.texts.size()) {
                parts_.texts.resize(static_cast<size_t>(id) + 1);
            }
            parts_.texts[static_cast<size_t>(id)] = text;
            // What is not spelled in the alphabet of bytes can never be made of bytes.
            if (auto spelled_bytes = bytes ? bytes_of_spelling(text) : text) {
                parts_.model.tokens.emplace_back(*std::move(spelled_bytes), id);
            }
        }
    }

    void read_merges() {
        int32_t rank = 0;
        for (const Json& merge : model_.at("merges")) {
            const auto [left, right] = parts_of(merge);
            const std::string what = cat("merge ", rank);
            parts_.model.rules.push_back({id_of(left, what), id_of(right, what), id_of(left + right, what), rank});
            ++rank;
        }
    }

    static std::pair<std::string, std::string> parts_of(const Json& merge) {
        if (merge.is_array() && merge.size() == 2) {
            return {merge[0].get<std::string>(), merge[1].get<std::string>()};
        }
        const std::string text = merge.is_string() ? merge.get<std::string>() : std::string();
        const size_t space = text.find(' ');
        if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
            throw Error(cat("the merge ", merge.dump(), " is not two tokens"));
        }
        return {text.substr(0, space), text.substr(space + 1)};
    }

    void read_byte_tokens() {
        std::vector<int32_t> tokens;
        for (int byte = 0; byte < 256; ++byte) {
            if (const auto found = ids_.find(fmt::format("<0x{:02X}>", byte)); found != ids_.end()) {
                tokens.push_back(found->second);
            }
        }
        if (!tokens.empty() && tokens.size() != 256) {
            refuse_part("the model's byte_fallback", cat("with ", tokens.size(), " of the tokens <0x00> to <0xFF>"));
        }
        if (parts_.model.symbols == BpeParts::Symbols::bytes && !tokens.empty()) {
            refuse_part("the model's byte_fallback", "behind ByteLevel");
        }
        parts_.model.byte_tokens = std::move(tokens);
    }

    const Json& model_;
    TokenizerParts& parts_;
    std::unordered_map<std::string, int32_t> ids_;
};

void read_added_tokens(const Json& list, TokenizerParts& parts) {
    for (const Json& json : list) {
        AddedToken token;
        token.content = json.at("content").get<std::string>();
        token.id = checked_id(json.at("id"), token.content);
        token.single_word = json.value("single_word", false);
        token.left_strip = json.value("lstrip", false);
        token.right_strip = json.value("rstrip", false);
        token.special = json.value("special", false);
        token.normalized = json.value("normalized", !token.special);
        if (static_cast<size_t>(token.id) >= parts.texts.size()) {
            parts.texts.resize(static_cast<size_t>(token.id) + 1);
        }
        std::string& text = parts.texts[static_cast<size_t>(token.id)];
        if (!text.empty() && text != token.content) {
            throw Error(cat("the added token ", token.content, " has the id ", token.id, ", which is ", text,
                            " in the vocabulary"));
        }
        text = token.content;
        parts.added_tokens.push_back(std::move(token));
    }
}

TokenizerParts parts_of_json(const Json& json) {
    for (const char* feature : {"truncation", "padding"}) {
        if (!is_off(json, feature)) {
            refuse_part("the", feature);
        }
    }
    const auto part = [&](const char* key) { return json.contains(key) ? json.at(key) : Json(); };
    TokenizerParts parts;
    parts.model.symbols = BpeParts::Symbols::characters;
    read_normalizer(part("normalizer"), parts);
    read_pre_tokenizer(part("pre_tokenizer"), parts);
    ModelReader(json.at("model"), parts).read();
    if (json.contains("added_tokens")) {
        read_added_tokens(json.at("added_tokens"), parts);
    }
    read_post_processor(part("post_processor"), parts);
    read_decoder(part("decoder"), parts);
    parts.end_of_document = end_of_document_of(parts.added_tokens);
    return parts;
}

// Not in {}, nor in a file of another kind.
bool has_model(const Json& json) {
    return json.is_object() && json.contains("model") && json.at("model").is_object() &&
           json.at("model").contains("vocab");
}

}  // namespace

Json parse_tokenizer_file(std::string_view contents) {
    return Json::parse(contents, [](int level, Json::parse_event_t, const Json&) {
        if (level > kMostLevels) {
            throw Error(cat("it has more than ", kMostLevels, " levels of brackets"));
        }
        return true;
    });
}

std::unique_ptr<Tokenizer> tokenizer_of_json(std::string_view contents, const std::string& name) {
    try {
        const Json json = parse_tokenizer_file(contents);
        if (has_model(json)) {
            TokenizerParts parts = parts_of_json(json);
            parts.fingerprint = hash_of(std::as_bytes(std::span(contents)));
            return make_tokenizer(std::move(parts));
        }
    } catch (const Json::exception& error) {
        throw Error(cat(name, " is not a tokenizer.json: ", error.what()));
    } catch (const Error& error) {
        throw Error(cat(name, ": ", error.what()));
    }
    throw Error(cat(name,
                    " is not a tokenizer.json: there is no tokenizer in it, as it has no \"model\" with a \"vocab\". ",
                    "Copy the tokenizer.json again, or name another tokenizer. (For a vocab.json, name the folder that "
                    "also has its merges.txt.)"));
}

}  // namespace accrue
