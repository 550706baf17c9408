#include "accrue/data/tokenizers/tokenizer_json_steps.h"

#include "accrue/base/error.h"
#include "accrue/data/tokenizers/word_scanner.h"

namespace accrue {
namespace {

using Json = nlohmann::json;

std::string type_of(const Json& json) {
    return json.at("type").get<std::string>();
}

std::string text_of_pattern(const Json& step, const std::string& what) {
    const Json& pattern = step.at("pattern");
    if (!pattern.contains("String")) {
        refuse_part(what, "with a pattern that is no String");
    }
    auto text = pattern.at("String").get<std::string>();
    if (text.empty()) {
        refuse_part(what, "with an empty String as its pattern");
    }
    return text;
}

Normalizer read_replace(const Json& json) {
    const auto content = json.at("content").get<std::string>();
    if (json.at("pattern").contains("Regex")) {
        return replace_step(Pattern(json.at("pattern").at("Regex").get<std::string>()), content);
    }
    return replace_step(text_of_pattern(json, "the normalizer Replace"), content);
}

std::string escaped(const std::string& text) {
    constexpr std::string_view kSigns = "\\^$.|?*+()[]{}-&#/~";
    std::string pattern;
    for (const char letter : text) {
        if (kSigns.find(letter) != std::string_view::npos) {
            pattern += '\\';
        }
        pattern += letter;
    }
    return pattern;
}

Splitter read_split(const Json& json) {
    const Json& pattern = json.at("pattern");
    const std::string source = pattern.contains("Regex") ? pattern.at("Regex").get<std::string>()
                                                         : escaped(text_of_pattern(json, "the pre_tokenizer Split"));
    const auto behavior = json.at("behavior").get<std::string>();
    const bool invert = json.value("invert", false);
    if (behavior == "Isolated") {
        return pattern_splitter(source, KeepOfSplit::everything);
    }
    if (behavior == "Removed") {
        return pattern_splitter(source, invert ? KeepOfSplit::matches : KeepOfSplit::gaps);
    }
    refuse_part("the pre_tokenizer Split", cat("with the behavior ", behavior));
}

void read_byte_level(const Json& json, TokenizerParts& parts) {
    if (json.value("add_prefix_space", true)) {
        parts.splitters.push_back(prefix_space_splitter());
    }
    if (json.value("use_regex", true)) {
        parts.splitters.push_back(pattern_splitter(pattern_of(WordRule::gpt2), KeepOfSplit::everything));
    }
    parts.model.symbols = BpeParts::Symbols::bytes;
}

PrependMark read_prepend(const Json& json) {
    if (!json.contains("prepend_scheme")) {
        return json.value("add_prefix_space", true) ? PrependMark::always : PrependMark::never;
    }
    const auto scheme = json.at("prepend_scheme").get<std::string>();
    if (scheme == "always") {
        return PrependMark::always;
    }
    if (scheme == "first") {
        return PrependMark::first_piece;
    }
    if (scheme == "never") {
        return PrependMark::never;
    }
    refuse_part("the Metaspace", cat("with the prepend_scheme ", scheme));
}

// An empty one would be found everywhere, and never left behind.
std::string read_mark(const Json& json) {
    auto mark = json.at("replacement").get<std::string>();
    if (mark.empty()) {
        refuse_part("the Metaspace", "with an empty replacement");
    }
    return mark;
}

// An id that no token has would be looked up outside a model's embedding.
int32_t id_of_template(const Json& id, const std::string& name, const TokenizerParts& parts) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= parts.texts.size()) {
        throw Error(cat("the post_processor has the id ", id.dump(), " for ", name, ", but the vocabulary has ",
                        parts.texts.size(), " ids"));
    }
    return id.get<int32_t>();
}

void add_template(const Json& json, TokenizerParts& parts) {
    std::vector<int32_t> before;
    std::vector<int32_t> behind;
    int sequences = 0;
    for (const Json& piece : json.at("single")) {
        if (piece.contains("Sequence")) {
            ++sequences;
            continue;
        }
        const auto name = piece.at("SpecialToken").at("id").get<std::string>();
        for (const Json& id : json.at("special_tokens").at(name).at("ids")) {
            (sequences == 0 ? before : behind).push_back(id_of_template(id, name, parts));
        }
    }
    if (sequences != 1) {
        refuse_part("the post_processor TemplateProcessing", cat("with the text ", sequences, " times in it"));
    }
    parts.before.insert(parts.before.begin(), before.begin(), before.end());
    parts.behind.insert(parts.behind.end(), behind.begin(), behind.end());
}

Strip read_strip(const Json& json) {
    const auto content = json.at("content").get<std::string>();
    const Character character = content.empty() ? Character{} : character_at(content, 0);
    if (character.size != content.size()) {
        refuse_part("the decoder Strip", "with a content that is not one character");
    }
    return {character.value, json.at("start").get<size_t>(), json.at("stop").get<size_t>()};
}

}  // namespace

void refuse_part(const std::string& what, const std::string& why) {
    throw Error(cat(what, " ", why, " is not supported"));
}

void read_normalizer(const Json& json, TokenizerParts& parts) {
    if (json.is_null()) {
        return;
    }
    const std::string type = type_of(json);
    if (type == "Sequence") {
        for (const Json& step : json.at("normalizers")) {
            read_normalizer(step, parts);
        }
    } else if (type == "Prepend") {
        parts.normalizers.push_back(prepend_step(json.at("prepend").get<std::string>()));
    } else if (type == "Replace") {
        parts.normalizers.push_back(read_replace(json));
    } else if (type == "NFC") {
        parts.normalizers.push_back(normal_form_step(NormalForm::nfc));
    } else if (type == "NFD") {
        parts.normalizers.push_back(normal_form_step(NormalForm::nfd));
    } else if (type == "NFKC") {
        parts.normalizers.push_back(normal_form_step(NormalForm::nfkc));
    } else if (type == "NFKD") {
        parts.normalizers.push_back(normal_form_step(NormalForm::nfkd));
    } else {
        refuse_part("the normalizer", type);
    }
}

void read_pre_tokenizer(const Json& json, TokenizerParts& parts) {
    if (json.is_null()) {
        return;
    }
    const std::string type = type_of(json);
    if (parts.model.symbols == BpeParts::Symbols::bytes) {
        refuse_part("the pre_tokenizer", cat(type, " behind ByteLevel"));
    }
    if (type == "Sequence") {
        for (const Json& step : json.at("pretokenizers")) {
            read_pre_tokenizer(step, parts);
        }
    } else if (type == "ByteLevel") {
        read_byte_level(json, parts);
    } else if (type == "Split") {
        parts.splitters.push_back(read_split(json));
    } else if (type == "Digits") {
        const bool each = json.value("individual_digits", false);
        parts.splitters.push_back(pattern_splitter(each ? R"(\p{N})" : R"(\p{N}+)", KeepOfSplit::everything));
    } else if (type == "Metaspace") {
        parts.splitters.push_back(mark_splitter(read_mark(json), read_prepend(json),
                                                json.value("split", true) ? CutAtMarks::yes : CutAtMarks::no));
    } else {
        refuse_part("the pre_tokenizer", type);
    }
}

void read_post_processor(const Json& json, TokenizerParts& parts) {
    if (json.is_null()) {
        return;
    }
    const std::string type = type_of(json);
    if (type == "Sequence") {
        for (const Json& step : json.at("processors")) {
            read_post_processor(step, parts);
        }
    } else if (type == "TemplateProcessing") {
        add_template(json, parts);
    } else if (type != "ByteLevel") {  // ByteLevel changes only offsets
        refuse_part("the post_processor", type);
    }
}

void read_decoder(const Json& json, TokenizerParts& parts) {
    if (json.is_null()) {
        return;
    }
    const std::string type = type_of(json);
    if (type == "Sequence") {
        for (const Json& step : json.at("decoders")) {
            read_decoder(step, parts);
        }
    } else if (type == "ByteLevel") {
        parts.decoders.push_back(byte_level_decoder());
    } else if (type == "Replace") {
        parts.decoders.push_back(
            replace_decoder(text_of_pattern(json, "the decoder Replace"), json.at("content").get<std::string>()));
    } else if (type == "ByteFallback") {
        parts.decoders.push_back(byte_fallback_decoder());
    } else if (type == "Fuse") {
        parts.decoders.push_back(fuse_decoder());
    } else if (type == "Strip") {
        parts.decoders.push_back(strip_decoder(read_strip(json)));
    } else if (type == "Metaspace") {
        parts.decoders.push_back(mark_decoder(read_mark(json), read_prepend(json)));
    } else {
        refuse_part("the decoder", type);
    }
}

}  // namespace accrue
