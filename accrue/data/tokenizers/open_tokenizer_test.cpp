#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/base/test_places.h"
#include "accrue/data/documents/stories.h"
#include "accrue/data/tokenizers/tokenizer.h"

namespace accrue {
namespace {

using Ids = std::vector<int32_t>;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::filesystem::path golden(const std::string& name) {
    return source_folder() / "tests/golden" / name;
}

class OpenTokenizerTest : public testing::Test {
protected:
    TemporaryFolder folder_;
};

TEST_F(OpenTokenizerTest, ByteNeedsNoFile) {
    const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer("byte");
    EXPECT_EQ(tokenizer->vocabulary(), 257);
    EXPECT_EQ(tokenizer->encode("ab", Special::with), (Ids{'a', 'b'}));
}

TEST_F(OpenTokenizerTest, AFolderMayHoldAnyKind) {
    EXPECT_THAT([&] { (void)open_tokenizer(folder_.path()); }, ThrowsMessage<Error>(HasSubstr("has no tokenizer")));
    // Llama 3 has its ranks under the name that others use for SentencePiece.
    write_text(folder_ / "tokenizer.model", "YQ== 0\nYg== 1\n");
    EXPECT_EQ(open_tokenizer(folder_.path())->encode("ab", Special::with), (Ids{0, 1}));
    std::filesystem::copy_file(golden("tokenizer-gpt2/tokenizer.json"), folder_ / "tokenizer.json");
    EXPECT_EQ(open_tokenizer(folder_.path())->vocabulary(), 2000);
}

TEST_F(OpenTokenizerTest, WhatIsNoTokenizerIsNamed) {
    EXPECT_THAT([&] { (void)open_tokenizer(folder_ / "absent.json"); }, ThrowsMessage<Error>(HasSubstr("absent.json")));
    write_text(folder_ / "story.txt", "Once upon a time.");
    EXPECT_THAT([&] { (void)open_tokenizer(folder_ / "story.txt"); },
                ThrowsMessage<Error>(HasSubstr("story.txt is neither a tokenizer.json nor a list of ranks nor a "
                                               "SentencePiece model")));
}

TEST_F(OpenTokenizerTest, AFileWithoutATokenizerSaysSoAndWhatToDo) {
    const auto expect_error = [&](const std::string& contents, const std::string& reason, const std::string& remedy) {
        write_text(folder_ / "tokenizer.json", contents);
        EXPECT_THAT([&] { (void)open_tokenizer(folder_.path()); },
                    ThrowsMessage<Error>(testing::AllOf(HasSubstr((folder_ / "tokenizer.json").string()),
                                                        HasSubstr(reason), HasSubstr(remedy))))
            << contents;
    };
    expect_error("", "is empty", "Copy it again");
    expect_error(" \n", "is empty", "Copy it again");
    for (const char* contents :
         {"{}", R"({"model": null})", R"({"model": {}})", R"({"version": "1.0"})", R"({"a": 0, "b": 1})"}) {
        expect_error(contents, "there is no tokenizer in it", "Copy the tokenizer.json again");
    }
    expect_error("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS pointer",
                 "git lfs pull");
}

// The json was made from the model's pieces: two implementations of the same tokenizer, one by SentencePiece itself.
TEST_F(OpenTokenizerTest, SentencePieceAndItsJsonAgree) {
    const std::unique_ptr<Tokenizer> model = open_tokenizer(golden("tokenizer-sentencepiece/tokenizer.model"));
    const std::unique_ptr<Tokenizer> json = open_tokenizer(golden("tokenizer-sentencepiece/tokenizer.json"));
    EXPECT_EQ(model->vocabulary(), json->vocabulary());
    EXPECT_EQ(model->end_of_document(), json->end_of_document());
    for (const std::string& text :
         {std::string("Once upon a time, 123 foxes"), std::string(" two  spaces and a tab\t."),
          std::string("naïve café 東京都 😀"), stories(7, 20'000)}) {
        const Ids ids = model->encode(text, Special::with);
        EXPECT_EQ(ids, json->encode(text, Special::with)) << text.substr(0, 80);
        EXPECT_EQ(model->encode(text, Special::without), Ids(ids.begin() + 1, ids.end()));
        EXPECT_EQ(model->decode(ids, Special::without), text);
        EXPECT_EQ(json->decode(ids, Special::without), text);
        EXPECT_EQ(model->decode(ids, Special::with), "<s>" + text);
    }
    EXPECT_EQ(model->token_text(1), "<s>");
    EXPECT_EQ(model->token_text(-1), "");
    EXPECT_EQ(model->decode(Ids{-1, 1 << 20}, Special::with), "");
}

}  // namespace
}  // namespace accrue
