#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/data/tokenizers/tokenizer_files.h"

namespace accrue {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;
using testing::HasSubstr;
using testing::ThrowsMessage;

// A small model of characters, without anything around it.
Json small() {
    return Json::parse(R"({
        "added_tokens": [],
        "normalizer": null, "pre_tokenizer": null, "post_processor": null,
        "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "unk_token": null,
                  "vocab": {"a": 0, "b": 1, "ab": 2, "▁": 3, "▁a": 4, "1": 5, "c": 6, "<unk>": 7, "é": 8, "bc": 9, "abc": 10},
                  "merges": ["a b", ["▁", "a"], "b c", "ab c"]}})");
}

std::unique_ptr<Tokenizer> open(const Json& json) {
    return tokenizer_of_json(json.dump(), "small.json");
}

Ids encoded(const Json& json, std::string_view text) {
    return open(json)->encode(text, Special::with);
}

// Opens the model with one part replaced.
auto opening(const char* part, const char* value) {
    return [=] {
        Json json = small();
        json[Json::json_pointer(part)] = Json::parse(value);
        (void)open(json);
    };
}

TEST(TokenizerJsonTest, MergesMayBeTextsOrPairs) {
    EXPECT_EQ(encoded(small(), "ab▁ab"), (Ids{2, 3, 2}));
    EXPECT_EQ(encoded(small(), "abc"), (Ids{10}));
    EXPECT_EQ(encoded(small(), "▁ac"), (Ids{4, 6}));
}

// "▁" would be put before the text by each of these, and is not where the text goes on.
TEST(TokenizerJsonTest, ALaterPartGetsNoPrefix) {
    Json prepending = small();
    prepending["normalizer"] = Json::parse(R"({"type": "Prepend", "prepend": "▁"})");
    Json always = small();
    always["pre_tokenizer"] = Json::parse(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})");
    Json first = small();
    first["pre_tokenizer"] = Json::parse(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"})");
    for (const Json& json : {prepending, always, first}) {
        EXPECT_EQ(open(json)->encode_plain("ab"), (Ids{3, 2})) << json["normalizer"];
        EXPECT_EQ(open(json)->encode_later_part("ab"), (Ids{2})) << json["normalizer"];
    }
    // What stands behind an added token is not where the text goes on.
    always["added_tokens"] = Json::parse(R"([{"id": 11, "content": "X", "normalized": false}])");
    EXPECT_EQ(open(always)->encode_later_part("abXab"), (Ids{2, 11, 3, 2}));
    Json bytes = small();
    bytes["model"]["vocab"] = Json::parse(R"({"a": 0, "Ġ": 1})");
    bytes["model"]["merges"] = Json::array();
    bytes["pre_tokenizer"] = Json::parse(R"({"type": "ByteLevel", "add_prefix_space": true})");
    EXPECT_EQ(open(bytes)->encode_plain("a"), (Ids{1, 0}));
    EXPECT_EQ(open(bytes)->encode_later_part("a"), (Ids{0}));
}

TEST(TokenizerJsonTest, UnknownCharactersAreLeftOutOrNamedOrFused) {
    Json json = small();
    EXPECT_EQ(encoded(json, "aXXb"), (Ids{2}));
    json["model"]["unk_token"] = "<unk>";
    EXPECT_EQ(encoded(json, "aXXb\xFF"), (Ids{0, 7, 7, 1, 7}));
    json["model"]["fuse_unk"] = true;
    EXPECT_EQ(encoded(json, "aXXb\xFF\xFF"), (Ids{0, 7, 1, 7}));
}

TEST(TokenizerJsonTest, IgnoringMergesTakesWholePieces) {
    Json json = small();
    json["model"]["merges"] = Json::array({"b c"});
    EXPECT_EQ(encoded(json, "abc"), (Ids{0, 9}));
    json["model"]["ignore_merges"] = true;
    EXPECT_EQ(encoded(json, "abc"), (Ids{10}));
    EXPECT_EQ(encoded(json, "abca"), (Ids{0, 9, 0}));
}

TEST(TokenizerJsonTest, AnIdThatCannotBeOneIsAnError) {
    for (const char* id : {"-1", "4000001", "18446744073709551615", "1.5", "true", "[[]]"}) {
        EXPECT_THAT(
            opening("/model/vocab/a", id),
            ThrowsMessage<Error>(HasSubstr(cat("the token a has the id ", id, ", which is not in 0..4000000"))));
    }
}

TEST(TokenizerJsonTest, ATemplateMayOnlyAddIdsOfTheVocabulary) {
    for (const char* id : {"-1", "11", "4294967296"}) {
        const std::string part = cat(R"({"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {}}],
            "special_tokens": {"<s>": {"ids": [)",
                                     id, "]}}}");
        EXPECT_THAT(opening("/post_processor", part.c_str()),
                    ThrowsMessage<Error>(HasSubstr(cat("the id ", id, " for <s>, but the vocabulary has 11 ids"))));
    }
}

TEST(TokenizerJsonTest, AnEmptyMarkIsRefused) {
    for (const char* part : {"/pre_tokenizer", "/decoder"}) {
        EXPECT_THAT(opening(part, R"({"type": "Metaspace", "replacement": ""})"),
                    ThrowsMessage<Error>(HasSubstr("the Metaspace with an empty replacement is not supported")));
    }
}

// The library copies and writes such a value level by level, and the stack would end first.
TEST(TokenizerJsonTest, TooManyLevelsAreAnError) {
    const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
    EXPECT_THAT([&] { (void)tokenizer_of_json(R"({"normalizer": )" + deep + "}", "deep.json"); },
                ThrowsMessage<Error>(HasSubstr("deep.json: it has more than 100 levels")));
}

TEST(TokenizerJsonTest, NormalizersRunInOrder) {
    Json json = small();
    json["normalizer"] = Json::parse(R"({"type": "Sequence", "normalizers": [
        {"type": "NFC"}, {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        {"type": "Replace", "pattern": {"Regex": "[xyz]+"}, "content": "c"}]})");
    EXPECT_EQ(encoded(json, "a e\u0301xyz"), (Ids{4, 3, 8, 6}));
    EXPECT_EQ(encoded(json, ""), Ids());
}

TEST(TokenizerJsonTest, SplitsKeepWhatTheyAreToldTo) {
    Json json = small();
    json["pre_tokenizer"] = Json::parse(R"({"type": "Split", "pattern": {"Regex": "b"}, "behavior": "Isolated"})");
    EXPECT_EQ(encoded(json, "abc"), (Ids{0, 1, 6}));
    json["pre_tokenizer"]["behavior"] = "Removed";
    EXPECT_EQ(encoded(json, "abc"), (Ids{0, 6}));
    json["pre_tokenizer"]["invert"] = true;
    EXPECT_EQ(encoded(json, "abc"), (Ids{1}));
    json["pre_tokenizer"] = Json::parse(R"({"type": "Split", "pattern": {"String": "b"}, "behavior": "Isolated"})");
    EXPECT_EQ(encoded(json, "abc"), (Ids{0, 1, 6}));
    json["pre_tokenizer"] = Json::parse(R"({"type": "Digits", "individual_digits": true})");
    EXPECT_EQ(encoded(json, "ab1"), (Ids{2, 5}));
}

TEST(TokenizerJsonTest, MarksStandForSpaces) {
    Json json = small();
    json["pre_tokenizer"] =
        Json::parse(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false})");
    json["decoder"] = json["pre_tokenizer"];
    json["added_tokens"] = Json::parse(R"([{"id": 11, "content": "<s>", "special": true, "normalized": false}])");
    EXPECT_EQ(encoded(json, "a a<s>a"), (Ids{4, 4, 11, 0}));
    EXPECT_EQ(encoded(json, "▁a"), (Ids{4}));
    EXPECT_EQ(open(json)->decode(Ids{4, 4, 11, 0}, Special::without), "a aa");
    EXPECT_EQ(open(json)->decode(Ids{4, 4, 11, 0}, Special::with), "a a<s>a");
    json["pre_tokenizer"]["prepend_scheme"] = "always";
    EXPECT_EQ(encoded(json, "a<s>a"), (Ids{4, 11, 4}));
    json["pre_tokenizer"]["prepend_scheme"] = "never";
    json["decoder"]["prepend_scheme"] = "never";
    EXPECT_EQ(encoded(json, "a  a"), (Ids{0, 3, 4}));
    EXPECT_EQ(open(json)->decode(Ids{4, 4}, Special::with), " a a");
    json["pre_tokenizer"] = Json::parse(R"({"type": "Metaspace", "replacement": "▁", "add_prefix_space": true})");
    EXPECT_EQ(encoded(json, "a b"), (Ids{4, 3, 1}));
}

TEST(TokenizerJsonTest, ByteLevelMayPutASpaceFirst) {
    Json json = small();
    json["model"]["vocab"] = {{"Ġ", 0}, {"a", 1}, {"Ġa", 2}};
    json["model"]["merges"] = {"Ġ a"};
    json["pre_tokenizer"] = Json::parse(R"({"type": "ByteLevel", "add_prefix_space": true, "use_regex": true})");
    EXPECT_EQ(encoded(json, "a a"), (Ids{2, 2}));
    EXPECT_EQ(encoded(json, " a"), (Ids{2}));
    json["pre_tokenizer"]["add_prefix_space"] = false;
    EXPECT_EQ(encoded(json, "a a"), (Ids{1, 2}));
}

TEST(TokenizerJsonTest, AddedTokensAreFoundBeforeOrAfterNormalizing) {
    Json json = small();
    json["normalizer"] = Json::parse(R"({"type": "Replace", "pattern": {"String": "x"}, "content": "a"})");
    json["added_tokens"] = Json::parse(R"([{"id": 11, "content": "xb", "normalized": true, "special": false},
                                           {"id": 12, "content": "cx", "normalized": false, "special": true}])");
    EXPECT_EQ(encoded(json, "xbcabcx"), (Ids{11, 6, 11, 12}));
    EXPECT_EQ(encoded(json, "ca"), (Ids{6, 0}));
    EXPECT_EQ(open(json)->decode(Ids{11, 12}, Special::without), "xb");
    EXPECT_EQ(open(json)->vocabulary(), 13);
}

TEST(TokenizerJsonTest, ATemplateStandsAroundTheText) {
    Json json = small();
    json["post_processor"] = Json::parse(R"({"type": "Sequence", "processors": [{"type": "ByteLevel"},
        {"type": "TemplateProcessing",
         "single": [{"SpecialToken": {"id": "B", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                    {"SpecialToken": {"id": "E", "type_id": 0}}],
         "special_tokens": {"B": {"id": "B", "ids": [5], "tokens": ["B"]}, "E": {"id": "E", "ids": [6, 7], "tokens": ["E", "E"]}}}]})");
    EXPECT_EQ(open(json)->encode("a", Special::with), (Ids{5, 0, 6, 7}));
    EXPECT_EQ(open(json)->encode("a", Special::without), (Ids{0}));
}

TEST(TokenizerJsonTest, DecodersRunInOrder) {
    Json json = small();
    json["decoder"] = Json::parse(
        R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 1}]})");
    json["model"]["vocab"]["<0xC3>"] = 11;
    json["model"]["vocab"]["<0xA9>"] = 12;
    json["model"]["vocab"]["<0xZZ>"] = 13;
    EXPECT_EQ(open(json)->decode(Ids{3, 3, 4, 11, 12, 13, 3, 3}, Special::with), "  aé<0xZZ> ");
    json["decoder"] = nullptr;
    EXPECT_EQ(open(json)->decode(Ids{0, 2}, Special::with), "a ab");
}

TEST(TokenizerJsonTest, WhatIsNotSupportedIsNamed) {
    const std::tuple<const char*, const char*, const char*> refused[] = {
        {"/model/type", R"("WordPiece")", "the model WordPiece"},
        {"/model/type", R"("Unigram")", "the model Unigram"},
        {"/model/dropout", "0.1", "dropout = 0.1"},
        {"/model/continuing_subword_prefix", R"("##")", "continuing_subword_prefix = \"##\""},
        {"/model/end_of_word_suffix", R"("</w>")", "end_of_word_suffix"},
        {"/normalizer", R"({"type": "Lowercase"})", "the normalizer Lowercase"},
        {"/normalizer", R"({"type": "Replace", "pattern": {"String": ""}, "content": "x"})", "an empty String"},
        {"/pre_tokenizer", R"({"type": "Whitespace"})", "the pre_tokenizer Whitespace"},
        {"/pre_tokenizer", R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "MergedWithNext"})",
         "MergedWithNext"},
        {"/pre_tokenizer", R"({"type": "Split", "pattern": {"Regex": "\\w+"}, "behavior": "Isolated"})", R"(has \w)"},
        {"/pre_tokenizer", R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}]})",
         "Digits behind ByteLevel"},
        {"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "often"})",
         "prepend_scheme often"},
        {"/post_processor", R"({"type": "BertProcessing"})", "the post_processor BertProcessing"},
        {"/post_processor", R"({"type": "TemplateProcessing", "single": [], "special_tokens": {}})",
         "with the text 0 times"},
        {"/decoder", R"({"type": "WordPiece"})", "the decoder WordPiece"},
        {"/decoder", R"({"type": "Replace", "pattern": {"Regex": "a"}, "content": "b"})",
         "a pattern that is no String"},
        {"/decoder", R"({"type": "Strip", "content": "ab", "start": 1, "stop": 0})", "not one character"},
        {"/truncation", R"({"max_length": 8})", "the truncation"},
        {"/padding", R"({"strategy": "BatchLongest"})", "the padding"},
    };
    for (const auto& [part, value, text] : refused) {
        EXPECT_THAT(opening(part, value), ThrowsMessage<Error>(testing::AllOf(
                                              HasSubstr("small.json: "), HasSubstr(text), HasSubstr("not supported"))))
            << part << " " << value;
    }
    Json json = small();
    json["model"]["byte_fallback"] = true;
    json["model"]["vocab"]["<0x00>"] = 11;
    EXPECT_THAT([&] { (void)open(json); }, ThrowsMessage<Error>(HasSubstr("with 1 of the tokens <0x00> to <0xFF>")));
}

TEST(TokenizerJsonTest, BrokenFilesAreNamed) {
    EXPECT_THAT(opening("/model/merges", R"(["a x"])"),
                ThrowsMessage<Error>(HasSubstr("merge 0 names x, which is not in the vocabulary")));
    EXPECT_THAT(opening("/model/merges", R"(["c a"])"), ThrowsMessage<Error>(HasSubstr("merge 0 names ca")));
    EXPECT_THAT(opening("/model/merges", R"(["abc"])"), ThrowsMessage<Error>(HasSubstr("\"abc\" is not two tokens")));
    EXPECT_THAT(opening("/model/unk_token", R"("<none>")"), ThrowsMessage<Error>(HasSubstr("unk_token names <none>")));
    EXPECT_THAT(opening("/model/vocab/a", "-1"), ThrowsMessage<Error>(HasSubstr("the token a has the id -1")));
    EXPECT_THAT(opening("/model/vocab/a", "9999999999"), ThrowsMessage<Error>(HasSubstr("which is not in 0..")));
    EXPECT_THAT(opening("/added_tokens", R"([{"id": 2, "content": "<s>"}])"),
                ThrowsMessage<Error>(HasSubstr("the added token <s> has the id 2, which is ab in the vocabulary")));
    EXPECT_THAT(opening("/model", "{}"), ThrowsMessage<Error>(HasSubstr("small.json is not a tokenizer.json")));
    EXPECT_THAT(opening("/model/vocab", "3"), ThrowsMessage<Error>(HasSubstr("small.json")));
    EXPECT_THAT([] { (void)tokenizer_of_json("{", "cut.json"); },
                ThrowsMessage<Error>(HasSubstr("cut.json is not a tokenizer.json")));
}

}  // namespace
}  // namespace accrue
