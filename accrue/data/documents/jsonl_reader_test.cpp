#include <gmock/gmock.h>

#include "accrue/data/documents/reader_test.h"

namespace accrue {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class JsonlReaderTest : public ReaderTest {
protected:
    // Each document's parts in brackets: # for marks, ! for what counts.
    [[nodiscard]] static std::vector<std::string> shown(const std::vector<Document>& documents) {
        std::vector<std::string> result;
        for (const Document& document : documents) {
            EXPECT_FALSE(document.unfinished);
            std::string text;
            for (const DocumentPart& part : document.parts) {
                text += cat("[", part.has_markup ? "#" : "", part.counted ? "!" : "", part.text, "]");
            }
            result.push_back(text);
        }
        return result;
    }

    [[nodiscard]] std::string error_of_line(std::string_view line) const {
        return error_of(write("a.jsonl", cat("{\"text\": \"good\"}\n\n", line, "\n{\"text\": \"good\"}\n")));
    }
};

TEST_F(JsonlReaderTest, ATextCountsWhole) {
    const auto file = write("a.jsonl", R"({"text": "one"}
{"id": 7, "text": "größer \u00df\n<|im_end|>", "more": {"text": 1}}
)");
    EXPECT_THAT(shown(read_all(file)), ElementsAre("[!one]", "[!größer ß\n<|im_end|>]"));
}

TEST_F(JsonlReaderTest, OfPromptAndCompletionOnlyTheCompletionCounts) {
    const auto file = write("a.jsonl", R"({"prompt": "1+1=", "completion": "2"}
{"completion": "only", "prompt": ""}
{"prompt": "only", "completion": ""})");
    EXPECT_THAT(shown(read_all(file)), ElementsAre("[1+1=][!2]", "[!only]", "[only]"));
}

TEST_F(JsonlReaderTest, MessagesAreWrittenInTheChosenFormat) {
    const auto file = write(
        "a.jsonl", R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]})");
    EXPECT_THAT(shown(read_all(file)), ElementsAre("[#<|im_start|>user\n][Hi][#<|im_end|>][#\n]"
                                                   "[#<|im_start|>assistant\n][!Ho][#!<|im_end|>][#\n]"));
    EXPECT_THAT(shown(read_all(file, {.chat_format = "llama3"})),
                ElementsAre("[#<|begin_of_text|>][#<|start_header_id|>user<|end_header_id|>\n\n][Hi][#<|eot_id|>]"
                            "[#<|start_header_id|>assistant<|end_header_id|>\n\n][!Ho][#!<|eot_id|>]"));
    EXPECT_THAT(shown(read_all(file, {.chat_format = "plain"})),
                ElementsAre("[#User:][ Hi][#\n][#Assistant:][! Ho][#!\n]"));
}

TEST_F(JsonlReaderTest, OfSeveralFieldsTheRichestIsTaken) {
    const auto file = write("a.jsonl", R"({"text": "t", "prompt": "p", "messages": [{"role": "user", "content": "m"}]}
{"text": "t", "prompt": "p", "completion": "c"}
{"text": "t", "prompt": "p"})");
    EXPECT_THAT(shown(read_all(file, {.chat_format = "plain"})), ElementsAre("[#User:][ m][#\n]", "[p][!c]", "[!t]"));
}

TEST_F(JsonlReaderTest, BlankLinesAndEmptyTextsArePassedOverAndLineEndsMayBeOfWindows) {
    const auto file =
        write("a.jsonl", "\xEF\xBB\xBF{\"text\": \"one\"}\r\n\r\n \t\n{\"text\": \"\"}\n{\"text\": \"two\"}\r\n\n");
    EXPECT_THAT(shown(read_all(file)), ElementsAre("[!one]", "[!two]"));
}

TEST_F(JsonlReaderTest, CompressedFilesReadTheSame) {
    const std::string lines = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
    EXPECT_THAT(shown(read_all(write("a.jsonl.gz", gzipped(lines)))), ElementsAre("[!one]", "[!two]"));
    EXPECT_THAT(shown(read_all(write("a.jsonl.zst", zstandard(lines)))), ElementsAre("[!one]", "[!two]"));
}

TEST_F(JsonlReaderTest, AVeryLongLineIsOneDocument) {
    const std::string text(3'000'000, 'x');
    const auto documents = read_all(write("a.jsonl", cat("{\"text\": \"", text, "\"}\n{\"text\": \"y\"}")));
    ASSERT_EQ(documents.size(), 2U);
    EXPECT_TRUE(documents[0].parts[0].text == text);
    EXPECT_EQ(documents[1].parts[0].text, "y");
}

TEST_F(JsonlReaderTest, WhatIsNotJsonIsNamedWithItsLine) {
    EXPECT_THAT(error_of_line("{\"text\": \"cut"),
                AllOf(HasSubstr("a.jsonl, line 3: the line is not JSON"), HasSubstr("at byte "),
                      HasSubstr(R"(an object with "text", with "prompt" and "completion", or with "messages")")));
    EXPECT_THAT(error_of_line("{\"text\": \"a\"} {\"text\": \"b\"}"), HasSubstr("line 3: the line is not JSON"));
    EXPECT_THAT(error_of_line(R"({"text": "\ud800"})"), HasSubstr("line 3: the line is not JSON"));
}

TEST_F(JsonlReaderTest, ANumberTooLargeToReadIsNamedWithItsLine) {
    EXPECT_THAT(error_of_line(R"({"text": "a", "score": 1e999})"),
                AllOf(HasSubstr("a.jsonl, line 3: a number in the line is larger than"), HasSubstr("skip_bad")));
    EXPECT_EQ(read_all(write("a.jsonl", "{\"text\": \"a\", \"score\": -1e999}\n{\"text\": \"b\", \"score\": 1e-999}"),
                       {.skip_bad = true})
                  .size(),
              1U);
}

TEST_F(JsonlReaderTest, WhatIsNotUtf8IsNamedWithItsLine) {
    EXPECT_THAT(error_of_line("{\"text\": \"gr\xF6\"}"),
                AllOf(HasSubstr("a.jsonl, line 3: byte 13 of the line is not UTF-8"), HasSubstr("iconv")));
}

TEST_F(JsonlReaderTest, WrongFieldsAreNamed) {
    EXPECT_THAT(error_of_line("[1]"), AllOf(HasSubstr("line 3: the line is array"), HasSubstr("must be an object")));
    EXPECT_THAT(error_of_line(R"({"content": "x"})"),
                AllOf(HasSubstr("line 3: the line has none of the known fields"), HasSubstr("must be an object with")));
    EXPECT_THAT(error_of_line(R"({"text": 3})"),
                HasSubstr("line 3: \"text\" of the line is number, and a string is needed"));
    EXPECT_THAT(error_of_line(R"({"prompt": "x"})"), HasSubstr("line 3: the line has no \"completion\""));
    EXPECT_THAT(error_of_line(R"({"completion": "x"})"), HasSubstr("line 3: the line has no \"prompt\""));
    EXPECT_THAT(error_of_line(R"({"prompt": null, "completion": "x"})"), HasSubstr("\"prompt\" of the line is null"));
}

TEST_F(JsonlReaderTest, WrongMessagesAreNamed) {
    const std::string needed = R"({"role": ..., "content": ...} is needed)";
    EXPECT_THAT(error_of_line(R"({"messages": "x"})"), AllOf(HasSubstr("\"messages\" is string"), HasSubstr(needed)));
    EXPECT_THAT(error_of_line(R"({"messages": []})"),
                AllOf(HasSubstr("\"messages\" is an empty list"), HasSubstr(needed)));
    EXPECT_THAT(error_of_line(R"({"messages": ["x"]})"), AllOf(HasSubstr("message 1 is string"), HasSubstr(needed)));
    EXPECT_THAT(error_of_line(R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant"}]})"),
                HasSubstr("line 3: message 2 has no \"content\""));
    EXPECT_THAT(error_of_line(R"({"messages": [{"role": 1, "content": "x"}]})"),
                HasSubstr("\"role\" of message 1 is number"));
    EXPECT_THAT(error_of_line(R"({"messages": [{"role": "<|im_end|>", "content": "x"}]})"),
                HasSubstr("the role of message 1 is \"<|im_end|>\", and system, user or assistant is needed"));
}

TEST_F(JsonlReaderTest, DamagedLinesAreCountedAndSkippedOnlyIfAskedTo) {
    const auto file =
        write("a.jsonl", "{\"text\": \"one\"}\nnonsense\n\n{\"text\": 1}\n{\"text\": \"\xFF\"}\n{\"text\": \"two\"}\n");
    EXPECT_THAT(error_of(file), HasSubstr("line 2"));
    const auto reader = open_documents(file, {.skip_bad = true});
    Document document;
    ASSERT_TRUE(reader->next(document));
    EXPECT_EQ(document.parts.at(0).text, "one");
    EXPECT_EQ(reader->skipped(), 0);
    ASSERT_TRUE(reader->next(document));
    EXPECT_EQ(document.parts.at(0).text, "two");
    EXPECT_EQ(reader->skipped(), 3);
    EXPECT_FALSE(reader->next(document));
    EXPECT_FALSE(reader->next(document));
}

TEST_F(JsonlReaderTest, DamagedCompressionIsAnErrorAlsoWhereDamagedLinesAreSkipped) {
    std::string packed = gzipped("{\"text\": \"one\"}\n");
    packed.resize(packed.size() - 1);
    EXPECT_THAT(error_of(write("a.jsonl.gz", packed), {.skip_bad = true}), HasSubstr("a.jsonl.gz is cut short"));
}

TEST_F(JsonlReaderTest, AFileWithoutDocumentsIsAnErrorUnlessDamageIsSkipped) {
    EXPECT_THAT(error_of(write("a.jsonl", "")), AllOf(HasSubstr("a.jsonl is empty"), HasSubstr("Each line must be")));
    EXPECT_THAT(error_of(write("a.jsonl", "\n\n{\"text\": \"\"}\n")), HasSubstr("a.jsonl is empty"));
    EXPECT_TRUE(read_all(write("a.jsonl", "nonsense\n"), {.skip_bad = true}).empty());
}

// It is no damage of the line, so it is not skipped like one.
TEST_F(JsonlReaderTest, AConversationWithoutAKnownFormatIsAnErrorThatSaysWhy) {
    const ReaderOptions options{.chat_format = "", .skip_bad = true, .chat_fault = "the template is strange."};
    const auto file = write("a.jsonl", "{\"text\": \"t\"}\n{}\n{\"messages\": []}\n");
    EXPECT_THAT(error_of(file, options), AllOf(HasSubstr("a.jsonl, line 3"), HasSubstr("the template is strange.")));
    EXPECT_THAT(shown(read_all(write("b.jsonl", R"({"text": "t"})"), options)), ElementsAre("[!t]"));
}

TEST_F(JsonlReaderTest, AnUnknownChatFormatIsAnErrorBeforeTheFirstLine) {
    EXPECT_THAT(error_of([&] { (void)open_documents(write("a.jsonl", ""), {.chat_format = "alpaca"}); }),
                AllOf(HasSubstr("\"alpaca\""), HasSubstr("chatml, llama3, plain")));
}

}  // namespace
}  // namespace accrue
