// Conversations and the text that comes out: the model's own chat template, marks without tokens, what `sample` writes.

#include <cmath>

#include "tests/support.h"
#include <fcntl.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "accrue/base/file.h"
#include "accrue/data/documents/chat_template.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ChatJson = nlohmann::json;

constexpr const char* kStrangeTemplate = "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}{% endfor %}";

class ChatTest : public ::testing::Test {
protected:
    ChatTest() {
        copy_model("llama", folder_ / "model", {});
        write_tokenizer({"<|im_start|>", "<|im_end|>"});
        write_text(folder_ / "chat.jsonl",
                   R"({"messages": [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "I am."}]})");
        write_text(folder_ / "text.jsonl", R"({"text": "No conversation at all."})");
    }

    void write_tokenizer(std::vector<std::string> marks) const {
        marks.insert(marks.begin(), "<|endoftext|>");
        write_text(folder_ / "model" / "tokenizer.json", tokenizer_of_letters(marks));
    }
    void write_template(const std::string& text) const {
        write_text(folder_ / "model" / "tokenizer_config.json",
                   ChatJson{{"bos_token", "<|begin_of_text|>"}, {"chat_template", text}}.dump());
    }
    [[nodiscard]] ProgramResult train(const std::vector<std::string>& settings, const char* data = "chat.jsonl") const {
        std::vector<std::string> arguments = {"train",
                                              "--set",
                                              "model.from=model",
                                              "--set",
                                              cat("data.train=", data),
                                              "--set",
                                              "data.layout=padded",
                                              "--set",
                                              "schedule.steps=1"};
        for (const std::string& setting : settings) {
            arguments.insert(arguments.end(), {"--set", setting});
        }
        return run_program(arguments, folder_.path());
    }
    [[nodiscard]] ProgramResult run(const std::vector<std::string>& arguments) const {
        return run_program(arguments, folder_.path());
    }
    [[nodiscard]] std::string recorded_format(const std::string& run) const {
        const std::string settings = read_text(folder_ / "runs" / run / "run.toml");
        const size_t key = settings.find("chat_format = \"") + 15;
        return settings.substr(key, settings.find('"', key) - key);
    }
    [[nodiscard]] std::string written_template(const std::string& run) const {
        return read_text(folder_ / "runs" / run / "model" / "tokenizer_config.json");
    }

    TemporaryFolder folder_;
};

void expect_words(const ProgramResult& result, int exit_code, const std::vector<std::string>& words) {
    EXPECT_EQ(result.exit_code, exit_code) << result.output;
    for (const std::string& word : words) {
        EXPECT_NE(result.output.find(word), std::string::npos) << "no \"" << word << "\" in: " << result.output;
    }
}

TEST_F(ChatTest, TheModelsOwnTemplateDecidesAndIsRecordedForever) {
    write_tokenizer({"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"});
    write_template(chat_template_of(ChatFormat::llama3));
    const std::string own = read_text(folder_ / "model" / "tokenizer_config.json");
    const ProgramResult trained = train({});
    expect_words(trained, 0, {"Done: 1 steps"});
    EXPECT_EQ(trained.output.find("chat:"), std::string::npos) << trained.output;
    EXPECT_EQ(recorded_format("1"), "llama3");
    EXPECT_EQ(written_template("1"), own);
    // The template changes, the run does not: its tokens would be others.
    write_template(chat_template_of(ChatFormat::chatml));
    expect_words(run({"train", "--resume", "runs/1", "--set", "schedule.steps=2"}), 0,
                 {"continued from step 1", "as llama3", "is chatml"});
    EXPECT_EQ(recorded_format("1"), "llama3");
    EXPECT_EQ(find_chat_template(folder_ / "runs" / "1" / "model")->format, ChatFormat::llama3);
}

TEST_F(ChatTest, AFolderWithoutATemplateIsTrainedInChatmlAndDescribesIt) {
    expect_words(train({}), 0, {"Done: 1 steps"});
    EXPECT_EQ(recorded_format("1"), "chatml");
    EXPECT_EQ(find_chat_template(folder_ / "runs" / "1" / "model")->format, ChatFormat::chatml);
}

TEST_F(ChatTest, AnUnknownTemplateIsAnErrorBeforeAnythingIsWritten) {
    write_text(folder_ / "model" / "chat_template.jinja", kStrangeTemplate);
    expect_words(train({"data.skip_bad=true"}), 1,
                 {"chat.jsonl, line 1", "chat_template.jinja", "chatml, llama3, plain", "data.chat_format"});
    EXPECT_FALSE(fs::exists(folder_ / "runs" / "1"));
}

TEST_F(ChatTest, AChosenFormatIsToldAndDescribedInTheTrainedModel) {
    write_text(folder_ / "model" / "chat_template.jinja", kStrangeTemplate);
    write_template(kStrangeTemplate);
    expect_words(train({"data.chat_format=chatml"}), 0,
                 {"chat: conversations become text as chatml", "chat_template.jinja"});
    const fs::path model = folder_ / "runs" / "1" / "model";
    EXPECT_EQ(find_chat_template(model)->format, ChatFormat::chatml);
    const auto config = ChatJson::parse(written_template("1"));
    EXPECT_EQ(config["chat_template"], chat_template_of(ChatFormat::chatml));
    EXPECT_EQ(config["bos_token"], "<|begin_of_text|>");
    for (const char* place : {"runs/1", "runs/1/model"}) {
        expect_words(run({"sample", place, "Who?", "--chat", "--tokens", "2"}), 0, {});
    }
    // The model before training still speaks what it spoke.
    expect_words(run({"sample", "model", "Who?", "--chat"}), 1, {"chat_template.jinja", "--chat-format"});
    expect_words(run({"sample", "model", "Who?", "--chat", "--chat-format", "chatml", "--tokens", "2"}), 0, {});
}

TEST_F(ChatTest, WithoutConversationsTheModelsTemplateStays) {
    write_text(folder_ / "model" / "chat_template.jinja", kStrangeTemplate);
    const ProgramResult trained = train({}, "text.jsonl");
    expect_words(trained, 0, {"Done: 1 steps"});
    EXPECT_EQ(trained.output.find("chat:"), std::string::npos) << trained.output;
    EXPECT_EQ(recorded_format("1"), "auto");
    EXPECT_EQ(read_text(folder_ / "runs" / "1" / "model" / "chat_template.jinja"), kStrangeTemplate);
    expect_words(run({"sample", "runs/1", "Who?", "--chat"}), 1, {"chat_template.jinja", "--chat-format"});
}

TEST_F(ChatTest, AModelFolderIsEvaluatedInItsOwnFormat) {
    const auto tokens_in = [&](ChatFormat format) {
        write_template(chat_template_of(format));
        const ProgramResult result = run({"eval", "model", "--data", "chat.jsonl"});
        expect_words(result, 0, {"tokens:"});
        return result.output.substr(result.output.find("tokens:  "), 24);
    };
    write_text(folder_ / "model" / "chat_template.jinja", kStrangeTemplate);
    expect_words(run({"eval", "model", "--data", "chat.jsonl"}), 1, {"chat_template.jinja", "--chat-format"});
    expect_words(run({"eval", "model", "--data", "chat.jsonl", "--chat-format", "plain"}), 0, {"tokens:"});
    expect_words(run({"eval", "model", "--data", "chat.jsonl", "--chat-format", "alpaca"}), 2, {"--chat-format"});
    fs::remove(folder_ / "model" / "chat_template.jinja");
    EXPECT_NE(tokens_in(ChatFormat::chatml), tokens_in(ChatFormat::plain)) << "plain has a space before the answer";
}

// The model spells the mark that ends its answer, letter by letter.
TEST_F(ChatTest, MarksWithoutTokensAreToldAndStillEndAnAnswer) {
    write_tokenizer({});
    const ProgramResult trained = train({"schedule.steps=90", "optimizer.rate=1e-2", "data.sequence_length=128"});
    expect_words(trained, 0, {"no token for <|im_start|>, <|im_end|>"});
    EXPECT_EQ(trained.output.find("no token for"), trained.output.rfind("no token for")) << "once";
    EXPECT_EQ(run({"sample", "runs/1", "Who?", "--chat", "--temperature", "0"}).output, "I am.\n");
}

TEST_F(ChatTest, PlainAnswersComeWithoutTheSpaceBeforeThem) {
    const ProgramResult trained =
        train({"schedule.steps=60", "optimizer.rate=1e-2", "data.chat_format=plain", "data.sequence_length=128"});
    expect_words(trained, 0, {"Done"});
    EXPECT_EQ(run({"sample", "runs/1/model", "Who?", "--chat", "--temperature", "0"}).output, "I am.\n");
}

// A model that always says the same token, with a tokenizer as Llama 2 has it.
class SameTokenTest : public ChatTest {
protected:
    SameTokenTest() {
        ChatJson vocabulary = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}, {"▁", 3}, {"a", 4}, {"▁a", 5}, {"<0x1B>", 6}};
        const auto added = [](int id, const char* text) {
            return ChatJson{{"id", id},        {"content", text}, {"special", true},    {"single_word", false},
                            {"lstrip", false}, {"rstrip", false}, {"normalized", false}};
        };
        const auto replace = [](const char* from, const char* to) {
            return ChatJson{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
        };
        const ChatJson strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
        const ChatJson tokenizer = {
            {"added_tokens", {added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")}},
            {"normalizer",
             {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", "▁"}}, replace(" ", "▁")}}}},
            {"pre_tokenizer", nullptr},
            {"decoder",
             {{"type", "Sequence"},
              {"decoders", {replace("▁", " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}, strip}}}},
            {"model",
             {{"type", "BPE"},
              {"vocab", vocabulary},
              {"merges", {"▁ a"}},
              {"unk_token", "<unk>"},
              {"fuse_unk", true}}}};
        write_text(folder_ / "model" / "tokenizer.json", tokenizer.dump());
    }

    void always_say(int64_t token) const {
        copy_model("llama", folder_ / "model", {}, [&](const std::string& name, std::vector<float>& values) {
            const bool is_one = name == "model.embed_tokens.weight" || name.find("norm") != std::string::npos;
            std::fill(values.begin(), values.end(), is_one ? 1.0F : 0.0F);
            if (name == "lm_head.weight") {
                std::fill_n(values.begin() + token * 32, 32, 1.0F);
            }
        });
    }
};

TEST_F(SameTokenTest, SpacesBetweenTokensAreWritten) {
    always_say(5);
    const ProgramResult said = run({"sample", "model", "a", "--temperature", "0", "--tokens", "3"});
    expect_words(said, 0, {});
    EXPECT_EQ(said.output, "a a a a\n");
}

TEST_F(SameTokenTest, ControlCharactersAreSpelledOut) {
    always_say(6);
    const ProgramResult said = run({"sample", "model", "a", "--temperature", "0", "--tokens", "2"});
    EXPECT_EQ(said.output, "a\\x1b\\x1b\n");
    write_text(folder_ / "a.jsonl", R"({"text": "a a a"})");
    const ProgramResult trained = train({"optimizer.rate=0"}, "a.jsonl");
    expect_words(trained, 0, {"It writes:\n", "\\x1b\\x1b"});
    EXPECT_EQ(trained.output.find('\x1b'), std::string::npos);
}

TEST_F(ChatTest, NothingInAnErrorDrivesATerminal) {
    write_text(folder_ / "a.jsonl", R"({"messages": [{"role": "\u001b[2J", "content": ""}]})");
    const ProgramResult result = train({}, "a.jsonl");
    expect_words(result, 1, {"is \"\\x1b[2J\""});
    EXPECT_EQ(result.output.find('\x1b'), std::string::npos);
}

TEST_F(ChatTest, NumbersThatAreNoneAreWrongUseOfSample) {
    for (const char* value : {"nan", "-nan", "inf", "-1", "1e999", "warm"}) {
        expect_words(run({"sample", "model", "a", cat("--temperature=", value)}), 2, {"--temperature", "from 0 up"});
    }
    for (const char* value : {"nan", "inf", "-0.1", "1.1"}) {
        expect_words(run({"sample", "model", "a", cat("--top-p=", value)}), 2, {"--top-p", "from 0 to 1"});
    }
}

class DecodeTest : public ChatTest {
protected:
    // Standard input comes from a file for as long as the program runs.
    [[nodiscard]] ProgramResult decode(const std::string& lines) const {
        write_text(folder_ / "ids", lines);
        const int before = dup(STDIN_FILENO);
        const int file = open((folder_ / "ids").c_str(), O_RDONLY);
        dup2(file, STDIN_FILENO);
        ProgramResult result = run({"tokenize", "--decode", "--tokenizer", "holes.json"});
        dup2(before, STDIN_FILENO);
        close(before);
        close(file);
        return result;
    }
    DecodeTest() {
        write_text(folder_ / "holes.json", R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": null,
            "decoder": {"type": "Fuse"}, "model": {"type": "BPE", "vocab": {"a": 0, "b": 3}, "merges": []}})");
    }
};

TEST_F(DecodeTest, IdsOfTheVocabularyBecomeText) {
    EXPECT_EQ(decode("0 3 0\n\n{\"ids\": [3, 0]}\n").output, "aba\n\n{\"text\":\"ba\"}\n");
}

TEST_F(DecodeTest, IdsThatAreNoneAreErrorsThatNameLineIdAndVocabulary) {
    for (const char* id : {"4", "-1", "3000000000", "4294967296", "99999999999999999999999"}) {
        expect_words(decode(cat("0\n0 ", id, "\n")), 1,
                     {cat("line 2 has the id ", id), "vocabulary has only 4", "0 to 3"});
    }
    for (const char* id : {"4", "-1", "3000000000", "4294967296"}) {
        expect_words(decode(cat("{\"ids\": [0, ", id, "]}\n")), 1, {cat("line 1 has the id ", id), "only 4"});
    }
    expect_words(decode("0 1\n"), 1, {"line 1 has the id 1", "no token", "4 ids"});
    expect_words(decode("{\"ids\": [1.5]}\n"), 1, {"line 1: 1.5 is not a token id"});
    expect_words(decode("{\"ids\": [\"0\"]}\n"), 1, {"line 1: \"0\" is not a token id"});
    expect_words(decode("{\"ids\": 3}\n"), 1, {"not a list"});
    expect_words(decode("0 zero\n"), 1, {"line 1: zero is not a token id"});
}

}  // namespace
}  // namespace accrue::testing
