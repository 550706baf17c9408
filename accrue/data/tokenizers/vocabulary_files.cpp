#include <algorithm>
#include <map>
#include <sstream>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/data/tokenizers/tokenizer_files.h"
#include "accrue/data/tokenizers/tokenizer_json_steps.h"
#include "accrue/data/tokenizers/word_scanner.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kUsualEnd = "<|endoftext|>";

// Empty where there is no such file.
Json read_beside(const fs::path& file) {
    if (!fs::is_regular_file(file)) {
        return Json::object();
    }
    try {
        Json json = parse_tokenizer_file(read_text(file));
        if (json.is_object()) {
            return json;
        }
    } catch (const Json::exception& error) {
        throw Error(cat(file.string(), " is not JSON: ", error.what(), ". Copy it again."));
    } catch (const Error& error) {
        throw Error(cat(file.string(), ": ", error.what()));
    }
    throw Error(cat(file.string(), " is not a JSON object. Copy it again."));
}

std::string text_at(const Json& json, const char* key) {
    return json.contains(key) && json.at(key).is_string() ? json.at(key).get<std::string>() : std::string();
}

// How these files cut text into words is written nowhere in them: the name of the Python class decides.
WordRule rule_of(const fs::path& folder, const Json& settings) {
    std::string name = text_at(settings, "tokenizer_class");
    if (name.ends_with("Fast")) {
        name.resize(name.size() - 4);
    }
    const std::string family = text_at(read_beside(folder / "config.json"), "model_type");
    if (name == "GPT2Tokenizer" || (name.empty() && family == "gpt2")) {
        return WordRule::gpt2;
    }
    if (name == "Qwen2Tokenizer" || (name.empty() && (family == "qwen2" || family == "qwen3"))) {
        return WordRule::qwen2;
    }
    throw Error(
        cat(folder.string(), " has a vocab.json and a merges.txt, but ",
            name.empty() ? "no tokenizer_class in a tokenizer_config.json, and no config.json of a GPT-2 or Qwen model,"
                         : cat("its tokenizer_config.json names the tokenizer_class ", name, ", which is not one"),
            " that says how they cut text. Put a tokenizer.json there (AutoTokenizer's save_pretrained() writes one), "
            "or name another tokenizer in data.tokenizer."));
}

Json merges_of(const fs::path& file) {
    Json merges = Json::array();
    std::istringstream lines(read_text(file));
    int64_t number = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line.ends_with('\r')) {
            line.pop_back();
        }
        if (line.empty() || (++number == 1 && line.starts_with("#version"))) {
            continue;
        }
        const size_t space = line.find(' ');
        if (space == std::string::npos || space == 0 || space + 1 == line.size() || space != line.rfind(' ')) {
            throw Error(cat(file.string(), ": the merge ",
                            Json(line).dump(-1, ' ', false, Json::error_handler_t::replace),
                            " is not two tokens with a space between them. Copy the file again."));
        }
        merges.push_back(line);
    }
    return merges;
}

// A special token is named by its text, or by an object that holds it.
std::string name_of_token(const Json& json) {
    return json.is_object() ? text_at(json, "content") : (json.is_string() ? json.get<std::string>() : std::string());
}

// The tokens that are found in a text before it is cut, as a tokenizer.json lists them.
class AddedList {
public:
    explicit AddedList(const Json& vocabulary) : vocabulary_(vocabulary) {
        constexpr int64_t kLargestId = 4'000'000;  // larger ones are refused with the vocabulary
        for (const auto& [text, id] : vocabulary.items()) {
            if (id.is_number_unsigned() && id.get<uint64_t>() <= kLargestId) {
                next_id_ = std::max(next_id_, id.get<int64_t>() + 1);
            }
        }
    }

    void add(const std::string& text, int64_t id, const Json& properties) {
        Json token = {{"id", id}, {"content", text}};
        for (const char* key : {"single_word", "lstrip", "rstrip", "normalized", "special"}) {
            token[key] = properties.contains(key) && properties.at(key) == true;
        }
        tokens_[text] = std::move(token);
        next_id_ = std::max(next_id_, id + 1);
    }

    // As Hugging Face does it: what has no id yet gets the next one.
    void add_special(const std::string& text) {
        if (text.empty()) {
            return;
        }
        if (!has(text)) {
            const auto known = vocabulary_.find(text);
            add(text, known == vocabulary_.end() ? next_id_ : known->get<int64_t>(), Json::object());
        }
        tokens_.at(text)["special"] = true;
    }

    [[nodiscard]] bool has(const std::string& text) const { return tokens_.contains(text); }
    [[nodiscard]] int64_t id_of(const std::string& text) const { return tokens_.at(text).at("id").get<int64_t>(); }

    [[nodiscard]] Json json() const {
        std::vector<Json> list;
        for (const auto& [text, token] : tokens_) {
            list.push_back(token);
        }
        std::sort(list.begin(), list.end(), [](const Json& a, const Json& b) { return a.at("id") < b.at("id"); });
        return list;
    }

private:
    const Json& vocabulary_;
    std::map<std::string, Json> tokens_;
    int64_t next_id_ = 0;
};

int64_t id_of_key(const std::string& key, const fs::path& folder) {
    if (key.empty() || key.size() > 9 || key.find_first_not_of("0123456789") != std::string::npos) {
        throw Error(cat((folder / "tokenizer_config.json").string(), ": added_tokens_decoder has ", Json(key).dump(),
                        ", which is no id. Copy the file again."));
    }
    return std::stoll(key);
}

AddedList added_list(const fs::path& folder, const Json& settings, const Json& vocabulary) {
    AddedList added(vocabulary);
    const Json by_id = settings.value("added_tokens_decoder", Json::object());
    for (const auto& [id, properties] : by_id.items()) {
        added.add(properties.at("content").get<std::string>(), id_of_key(id, folder), properties);
    }
    const Json by_text = read_beside(folder / "added_tokens.json");
    for (const auto& [text, id] : by_text.items()) {
        if (!added.has(text)) {
            added.add(text, id.get<int32_t>(), {{"normalized", true}});
        }
    }
    bool has_end = false;
    for (const Json& names : {settings, read_beside(folder / "special_tokens_map.json")}) {
        for (const char* role :
             {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
            const std::string text = names.contains(role) ? name_of_token(names.at(role)) : std::string();
            added.add_special(text);
            has_end = has_end || (!text.empty() && std::string_view(role) == "eos_token");
        }
        for (const Json& token : names.value("additional_special_tokens", Json::array())) {
            added.add_special(name_of_token(token));
        }
    }
    if (!has_end) {
        added.add_special(kUsualEnd);
    }
    return added;
}

Json byte_level(bool add_prefix_space, bool use_regex) {
    return {{"type", "ByteLevel"},
            {"add_prefix_space", add_prefix_space},
            {"trim_offsets", true},
            {"use_regex", use_regex}};
}

Json pre_tokenizer_of(WordRule rule, const Json& settings) {
    const bool prefix = settings.value("add_prefix_space", false);
    if (rule == WordRule::gpt2) {
        return byte_level(prefix, true);
    }
    const Json split = {
        {"type", "Split"}, {"pattern", {{"Regex", pattern_of(rule)}}}, {"behavior", "Isolated"}, {"invert", false}};
    return {{"type", "Sequence"}, {"pretokenizers", {split, byte_level(prefix, false)}}};
}

// A begin of text before each one, where GPT-2's tokenizer is told to.
Json post_processor_of(WordRule rule, const Json& settings, AddedList& added) {
    if (rule != WordRule::gpt2 || !settings.value("add_bos_token", false)) {
        return nullptr;
    }
    const std::string named = settings.contains("bos_token") ? name_of_token(settings.at("bos_token")) : std::string();
    const std::string text = named.empty() ? kUsualEnd : named;
    added.add_special(text);
    const auto begin = [&](int type) { return Json{{"SpecialToken", {{"id", text}, {"type_id", type}}}}; };
    const auto sequence = [](const char* name, int type) {
        return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
    };
    return {{"type", "TemplateProcessing"},
            {"single", {begin(0), sequence("A", 0)}},
            {"pair", {begin(0), sequence("A", 0), begin(1), sequence("B", 1)}},
            {"special_tokens",
             {{text, {{"id", text}, {"ids", Json::array({added.id_of(text)})}, {"tokens", Json::array({text})}}}}}};
}

}  // namespace

bool is_vocabulary_file(const fs::path& file) {
    return file.filename() == "vocab.json" && fs::is_regular_file(file) &&
           fs::is_regular_file(file.parent_path() / "merges.txt");
}

std::string tokenizer_json_of_vocabulary(const fs::path& folder) {
    try {
        const Json settings = read_beside(folder / "tokenizer_config.json");
        const WordRule rule = rule_of(folder, settings);
        const Json vocabulary = read_beside(folder / "vocab.json");
        AddedList added = added_list(folder, settings, vocabulary);
        const Json post_processor = post_processor_of(rule, settings, added);
        const Json model = {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges_of(folder / "merges.txt")}};
        const Json normalizer = rule == WordRule::qwen2 ? Json{{"type", "NFC"}} : Json();
        return Json{{"version", "1.0"},
                    {"truncation", nullptr},
                    {"padding", nullptr},
                    {"added_tokens", added.json()},
                    {"normalizer", normalizer},
                    {"pre_tokenizer", pre_tokenizer_of(rule, settings)},
                    {"post_processor", post_processor},
                    {"decoder", byte_level(true, true)},
                    {"model", model}}
            .dump(-1, ' ', false, Json::error_handler_t::replace);
    } catch (const Json::exception& error) {
        throw Error(cat("the tokenizer files in ", folder.string(),
                        " (vocab.json, tokenizer_config.json and the like) ", "cannot be read: ", error.what()));
    }
}

}  // namespace accrue
