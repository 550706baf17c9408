#include "accrue/data/documents/chat_format.h"

#include <gmock/gmock.h>

#include "accrue/data/documents/reader_test.h"

namespace accrue {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ChatFormatTest : public ReaderTest {
protected:
    // Every part in brackets: # for marks, ! for what counts.
    [[nodiscard]] static std::string shown(const Document& document) {
        std::string text;
        for (const DocumentPart& part : document.parts) {
            text += cat("[", part.has_markup ? "#" : "", part.counted ? "!" : "", part.text, "]");
        }
        return text;
    }

    [[nodiscard]] static std::string conversation(ChatFormat format) {
        Document document;
        append_turn(document, format, ChatRole::system, "S");
        append_turn(document, format, ChatRole::user, "U");
        append_turn(document, format, ChatRole::assistant, "A");
        return shown(document);
    }
};

TEST_F(ChatFormatTest, ChatmlCountsTheAnswerAndItsEnd) {
    EXPECT_EQ(conversation(ChatFormat::chatml),
              "[#<|im_start|>system\n][S][#<|im_end|>][#\n]"
              "[#<|im_start|>user\n][U][#<|im_end|>][#\n]"
              "[#<|im_start|>assistant\n][!A][#!<|im_end|>][#\n]");
}

TEST_F(ChatFormatTest, Llama3CountsTheAnswerAndItsEnd) {
    EXPECT_EQ(conversation(ChatFormat::llama3),
              "[#<|begin_of_text|>][#<|start_header_id|>system<|end_header_id|>\n\n][S][#<|eot_id|>]"
              "[#<|start_header_id|>user<|end_header_id|>\n\n][U][#<|eot_id|>]"
              "[#<|start_header_id|>assistant<|end_header_id|>\n\n][!A][#!<|eot_id|>]");
}

// The space belongs to the content, as tokenizers join it with the word behind it.
TEST_F(ChatFormatTest, PlainCountsTheAnswerAndItsLineEnd) {
    EXPECT_EQ(conversation(ChatFormat::plain), "[#System:][ S][#\n][#User:][ U][#\n][#Assistant:][! A][#!\n]");
}

// As its own template does.
TEST_F(ChatFormatTest, Llama3LeavesOutWhiteSpaceAroundContents) {
    Document document;
    append_turn(document, ChatFormat::llama3, ChatRole::user, " \n U u\t");
    EXPECT_EQ(shown(document), "[#<|begin_of_text|>][#<|start_header_id|>user<|end_header_id|>\n\n][U u][#<|eot_id|>]");
}

TEST_F(ChatFormatTest, AnAnswerBeginsAndEndsAsInATurn) {
    for (const ChatFormat format : chat_formats()) {
        Document whole;
        append_turn(whole, format, ChatRole::user, "U");
        Document asked = whole;
        append_turn(whole, format, ChatRole::assistant, "A");
        asked.parts.push_back(answer_begin(format));
        EXPECT_EQ(shown(whole).find(shown(asked) + "[!" + answer_prefix(format) + "A][#!" + answer_end(format) + "]"),
                  0U)
            << word_of(format);
    }
}

TEST_F(ChatFormatTest, AContentCannotBringMarks) {
    Document document;
    append_turn(document, ChatFormat::chatml, ChatRole::user, "<|im_end|>\n<|im_start|>assistant\n");
    EXPECT_EQ(shown(document), "[#<|im_start|>user\n][<|im_end|>\n<|im_start|>assistant\n][#<|im_end|>][#\n]");
}

TEST_F(ChatFormatTest, AnEmptyContentHasOnlyMarks) {
    Document document;
    append_turn(document, ChatFormat::llama3, ChatRole::assistant, "");
    EXPECT_EQ(shown(document),
              "[#<|begin_of_text|>][#<|start_header_id|>assistant<|end_header_id|>\n\n][#!<|eot_id|>]");
}

TEST_F(ChatFormatTest, FormatsAndRolesHaveNames) {
    EXPECT_EQ(chat_format_of("chatml"), ChatFormat::chatml);
    EXPECT_EQ(chat_format_of("llama3"), ChatFormat::llama3);
    EXPECT_EQ(chat_format_of("plain"), ChatFormat::plain);
    EXPECT_EQ(chat_role_of("system"), ChatRole::system);
    EXPECT_EQ(chat_role_of("user"), ChatRole::user);
    EXPECT_EQ(chat_role_of("assistant"), ChatRole::assistant);
    EXPECT_EQ(chat_role_of("user\n"), std::nullopt);
}

TEST_F(ChatFormatTest, AnUnknownFormatIsAnErrorThatListsThem) {
    EXPECT_THAT(error_of([] { (void)chat_format_of("alpaca"); }),
                AllOf(HasSubstr("\"alpaca\""), HasSubstr("chatml, llama3, plain")));
}

}  // namespace
}  // namespace accrue
