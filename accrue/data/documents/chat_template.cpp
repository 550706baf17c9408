#include "accrue/data/documents/chat_template.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/data/documents/jinja.h"
#include "accrue/data/tokenizers/visible_text.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

// The template may have a part in it.
constexpr size_t kLongestReason = 200;
constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";

struct Turn {
    const char* role;
    const char* content;
};
using Conversation = std::vector<Turn>;

// White space around contents and the same role twice show what a template does with them; what it adds where there is
// no system message is the commonest difference.
const std::vector<Conversation>& conversations_to_compare() {
    static const std::vector<Conversation> kConversations = {
        {{"system", "Be brief."}, {"user", "Who are you?"}, {"assistant", "A model."}},
        {{"user", "Who are you?"}, {"assistant", "A model."}},
        {{"system", " S\n"}, {"user", "\nA b "}, {"assistant", " c\n\n"}, {"user", "D"}, {"assistant", "e"}},
    };
    return kConversations;
}
constexpr size_t kWithoutSystem = 1;

std::string text_in(const Conversation& conversation, ChatFormat format) {
    Document document;
    for (const Turn& turn : conversation) {
        append_turn(document, format, *chat_role_of(turn.role), turn.content);
    }
    std::string text;
    for (const DocumentPart& part : document.parts) {
        text += part.text;
    }
    return text;
}

std::string text_in(const Conversation& conversation, const std::string& source, const SpecialTexts& special) {
    nlohmann::json messages = nlohmann::json::array();
    for (const Turn& turn : conversation) {
        messages.push_back({{"role", turn.role}, {"content", turn.content}});
    }
    return render_jinja(source, {{"messages", messages},
                                 {"bos_token", special.begin},
                                 {"eos_token", special.end},
                                 {"add_generation_prompt", false}});
}

// Why no format is the same as the texts a template writes for the conversations.
std::string difference_of(const std::vector<std::string>& texts) {
    const auto& conversations = conversations_to_compare();
    for (const ChatFormat format : chat_formats()) {
        if (texts.front() == text_in(conversations.front(), format)) {
            return texts[kWithoutSystem] == text_in(conversations[kWithoutSystem], format)
                       ? cat("it is ", word_of(format), ", but treats white space around messages differently")
                       : cat("it is ", word_of(format), " only where a conversation has a system message, and adds ",
                             "something else without one");
        }
    }
    return "it writes other text";
}

std::string special_text(const OrderedJson& config, const char* key) {
    const auto found = config.find(key);
    if (found == config.end()) {
        return "";
    }
    const OrderedJson& value = found->is_object() && found->contains("content") ? (*found)["content"] : *found;
    return value.is_string() ? value.get<std::string>() : "";
}

// The template's text, or nothing; `difference` says why a template that is there cannot be read.
std::optional<std::string> template_in(const OrderedJson& config, std::string& difference) {
    const auto found = config.find("chat_template");
    if (found == config.end() || found->is_null()) {
        return std::nullopt;
    }
    if (found->is_string()) {
        return found->get<std::string>();
    }
    for (const OrderedJson& one : found->is_array() ? *found : OrderedJson::array()) {
        if (one.is_object() && one.contains("name") && one["name"] == "default" && one.contains("template") &&
            one["template"].is_string()) {
            return one["template"].get<std::string>();
        }
    }
    difference = "its chat_template is neither a text nor a list with a template named \"default\"";
    return "";
}

}  // namespace

std::string chat_template_of(ChatFormat format) {
    switch (format) {
        case ChatFormat::chatml:
            return R"({% for message in messages %})"
                   R"({{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }})"
                   R"({% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})";
        case ChatFormat::llama3:
            return R"({{ '<|begin_of_text|>' }}{% for message in messages %})"
                   R"({{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }})"
                   R"({{ message['content'] | trim }}{{ '<|eot_id|>' }}{% endfor %})"
                   R"({% if add_generation_prompt %})"
                   R"({{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %})";
        case ChatFormat::plain:
            break;
    }
    return R"({% for message in messages %})"
           R"({{ message['role'] | capitalize + ': ' + message['content'] + '\n' }})"
           R"({% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %})";
}

ChatTemplate recognize_chat_template(const std::string& source, const SpecialTexts& special) {
    const auto& conversations = conversations_to_compare();
    std::vector<std::string> texts;
    try {
        for (const Conversation& conversation : conversations) {
            texts.push_back(text_in(conversation, source, special));
        }
    } catch (const Error& error) {
        return {.difference = cat("it cannot be followed: ", visible_text(error.what()).substr(0, kLongestReason))};
    }
    for (const ChatFormat format : chat_formats()) {
        const bool is_same =
            std::equal(texts.begin(), texts.end(), conversations.begin(),
                       [&](const std::string& text, const Conversation& one) { return text == text_in(one, format); });
        if (is_same) {
            return {.format = format};
        }
    }
    return {.difference = difference_of(texts)};
}

std::optional<ChatTemplate> find_chat_template(const fs::path& folder) {
    const fs::path file = folder / kTemplateFile;
    const fs::path config_file = folder / kTokenizerConfig;
    const bool has_file = fs::is_regular_file(file);
    const bool has_config = fs::is_regular_file(config_file);
    if (!has_file && !has_config) {
        return std::nullopt;
    }
    const auto config =
        has_config ? OrderedJson::parse(read_text(config_file), nullptr, false) : OrderedJson(OrderedJson::object());
    std::string difference;
    if (!has_file && !config.is_object()) {
        return ChatTemplate{.file = config_file, .difference = "it is no JSON object"};
    }
    const SpecialTexts special = config.is_object() ? SpecialTexts{.begin = special_text(config, "bos_token"),
                                                                   .end = special_text(config, "eos_token")}
                                                    : SpecialTexts{};
    const std::optional<std::string> source = has_file ? read_text(file) : template_in(config, difference);
    if (!source) {
        return std::nullopt;
    }
    ChatTemplate found =
        difference.empty() ? recognize_chat_template(*source, special) : ChatTemplate{.difference = difference};
    found.file = has_file ? file : config_file;
    return found;
}

void write_chat_template(const fs::path& folder, ChatFormat format) {
    const fs::path file = folder / kTemplateFile;
    const fs::path config_file = folder / kTokenizerConfig;
    bool is_written = false;
    if (fs::exists(config_file)) {
        auto config = OrderedJson::parse(read_text(config_file), nullptr, false);
        if (config.is_object()) {
            config["chat_template"] = chat_template_of(format);
            write_text(config_file, config.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
            is_written = true;
        }
    }
    if (!is_written || fs::exists(file)) {
        write_text(file, chat_template_of(format));
    }
}

}  // namespace accrue
