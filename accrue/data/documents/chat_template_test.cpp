#include "accrue/data/documents/chat_template.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "accrue/base/file.h"
#include "accrue/data/documents/jinja.h"
#include "accrue/data/documents/reader_test.h"

namespace accrue {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ChatTemplateTest : public ReaderTest {
protected:
    // "" if there is no template, "none" if it is no known format.
    [[nodiscard]] std::string found() const {
        const auto one = find_chat_template(folder_.path());
        return one ? (one->format ? std::string(word_of(*one->format)) : "none") : "";
    }
    void write_config(const nlohmann::json& config) const { (void)write("tokenizer_config.json", config.dump()); }
    [[nodiscard]] nlohmann::json read_config() const {
        return nlohmann::json::parse(read_text(folder_ / "tokenizer_config.json"));
    }
};

std::optional<ChatFormat> recognized(const std::string& source, const SpecialTexts& special = {}) {
    return recognize_chat_template(source, special).format;
}

const std::string kTurn = "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}";

TEST_F(ChatTemplateTest, OurOwnTemplatesWriteTheirFormats) {
    for (const ChatFormat format : chat_formats()) {
        EXPECT_EQ(recognized(chat_template_of(format)), format) << word_of(format);
        Document document;
        append_turn(document, format, ChatRole::user, "Who?");
        document.parts.push_back(answer_begin(format));
        std::string prompt;
        for (const DocumentPart& part : document.parts) {
            prompt += part.text;
        }
        EXPECT_EQ(render_jinja(chat_template_of(format), {{"messages", {{{"role", "user"}, {"content", "Who?"}}}},
                                                          {"add_generation_prompt", true}}),
                  prompt);
    }
}

TEST_F(ChatTemplateTest, ChatmlIsRecognizedHoweverItIsWritten) {
    EXPECT_EQ(recognized("{% for message in messages %}" + kTurn + "{% endfor %}"), ChatFormat::chatml);
    EXPECT_EQ(recognized("{%- for m in messages %}\n    {{- \"<|im_start|>\" ~ m['role'] }}\n"
                         "    {%- if m.content %}{{ '\\n' ~ m['content'] }}{% endif %}<|im_end|>\n{% endfor %}"),
              ChatFormat::chatml);
    // As newer ones treat tools: none are given here.
    EXPECT_EQ(recognized("{%- if tools %}{{ tools | tojson }}{%- elif messages[0].role == 'system' %}\n"
                         "{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}\n{%- endif %}\n"
                         "{%- for message in messages %}\n{%- if message.role == 'user' or (message.role == 'system' "
                         "and not loop.first) or (message.role == 'assistant' and not message.tool_calls) %}\n" +
                         kTurn + "{%- endif %}{%- endfor %}"),
              ChatFormat::chatml);
}

TEST_F(ChatTemplateTest, ASystemMessageOfTheTemplatesOwnIsAnotherFormat) {
    const ChatTemplate found = recognize_chat_template(
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
        "{{ '<|im_start|>system\\nBe kind.<|im_end|>\\n' }}{% endif %}" +
        kTurn + "{% endfor %}");
    EXPECT_EQ(found.format, std::nullopt);
    EXPECT_THAT(found.difference, AllOf(HasSubstr("chatml only where"), HasSubstr("system message")));
}

TEST_F(ChatTemplateTest, Llama3NeedsItsBeginOfText) {
    const std::string source =
        "{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + "
        "'<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
        "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}";
    EXPECT_EQ(recognized(source, {.begin = "<|begin_of_text|>", .end = {}}), ChatFormat::llama3);
    EXPECT_EQ(recognized(source), std::nullopt);
    // Later ones put a date into a system message.
    EXPECT_EQ(recognized("{{ bos_token }}{{ '<|start_header_id|>system<|end_header_id|>\\n\\nToday: 26 Jul' }}",
                         {.begin = "<|begin_of_text|>", .end = {}}),
              std::nullopt);
}

TEST_F(ChatTemplateTest, OtherFormatsAreNotTakenForKnownOnes) {
    const std::vector<std::string> others = {
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}"
        "{% elif m.role == 'assistant' %}{{ m.content + eos_token }}{% endif %}{% endfor %}",
        "{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + eos_token + '\\n' }}{% endfor %}",
        "{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}{% endfor %}",
        "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        "{% for m in messages %}{{ '<start_of_turn>' + m.role + '\\n' + m.content | trim + '<end_of_turn>\\n' }}"
        "{% endfor %}",
        "{{ bos_token }}{% for message in messages %}" + kTurn + "{% endfor %}",
        ""};
    for (const std::string& source : others) {
        const ChatTemplate found = recognize_chat_template(source, {.begin = "<s>", .end = "</s>"});
        EXPECT_EQ(found.format, std::nullopt) << source;
        EXPECT_NE(found.difference, "") << source;
    }
    EXPECT_EQ(recognize_chat_template("{{ raise_exception('\x1b[2J') }}").difference,
              "it cannot be followed: the template's own error \"\\x1b[2J\"")
        << "nothing that drives a terminal";
    EXPECT_THAT(recognize_chat_template("{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + "
                                        "message.content | trim + '<|im_end|>\\n' }}{% endfor %}")
                    .difference,
                HasSubstr("white space"));
}

TEST_F(ChatTemplateTest, AFolderKeepsItsTemplateInOneOfTwoFiles) {
    EXPECT_EQ(found(), "");
    write_config({{"chat_template", nullptr}});
    EXPECT_EQ(found(), "");
    write_config({{"chat_template", chat_template_of(ChatFormat::plain)}});
    EXPECT_EQ(found(), "plain");
    write_config({{"chat_template",
                   {{{"name", "tool_use"}, {"template", "x"}},
                    {{"name", "default"}, {"template", chat_template_of(ChatFormat::chatml)}}}}});
    EXPECT_EQ(found(), "chatml");
    const std::string ours = chat_template_of(ChatFormat::llama3);
    (void)write("chat_template.jinja", "{{ bos_token }}" + ours.substr(ours.find("{% for")));
    write_config({{"bos_token", {{"content", "<|begin_of_text|>"}}}, {"chat_template", "other"}});
    EXPECT_EQ(found(), "llama3") << "the file of its own goes first";
}

TEST_F(ChatTemplateTest, FilesThatCannotBeReadAreNoKnownFormat) {
    (void)write("tokenizer_config.json", "{\"chat_template\": ");
    EXPECT_EQ(found(), "none");
    for (const nlohmann::json& damaged : std::vector<nlohmann::json>{5, nlohmann::json::array({1, "a"}), true}) {
        write_config({{"chat_template", damaged}});
        EXPECT_EQ(found(), "none") << damaged;
    }
    (void)write("tokenizer_config.json", "[]");
    EXPECT_EQ(found(), "none");
    (void)write("chat_template.jinja", "\xFF{{");
    EXPECT_EQ(found(), "none");
}

TEST_F(ChatTemplateTest, AWrittenTemplateIsFoundAndTheRestStays) {
    write_chat_template(folder_.path(), ChatFormat::plain);
    EXPECT_EQ(found(), "plain");
    EXPECT_FALSE(std::filesystem::exists(folder_ / "tokenizer_config.json"));
    write_config({{"bos_token", "<s>"}, {"chat_template", "old"}});
    write_chat_template(folder_.path(), ChatFormat::chatml);
    EXPECT_EQ(found(), "chatml");
    EXPECT_EQ(read_config()["bos_token"], "<s>");
    EXPECT_EQ(read_config()["chat_template"], chat_template_of(ChatFormat::chatml));
    std::filesystem::remove(folder_ / "chat_template.jinja");
    write_chat_template(folder_.path(), ChatFormat::llama3);
    EXPECT_EQ(found(), "llama3");
    EXPECT_FALSE(std::filesystem::exists(folder_ / "chat_template.jinja"));
}

}  // namespace
}  // namespace accrue
