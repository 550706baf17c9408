#include "accrue/data/tokenizers/bpe_trainer.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/random.h"
#include "accrue/data/documents/stories.h"
#include "accrue/data/tokenizers/tokenizer_files.h"

namespace accrue {
namespace {

using Strings = std::vector<std::string>;

// Counts all pairs anew for each token: slow, and easy to believe. Words are letters with a space before them.
Strings merges_by_definition(const std::vector<Strings>& split_words, size_t count) {
    std::vector<Strings> words = split_words;
    std::vector<std::string> known;
    Strings merges;
    const auto id_of = [&](const std::string& token) {
        // Single letters first, in the alphabet's order; then tokens as they were made.
        const auto found = std::find(known.begin(), known.end(), token);
        return std::pair(found == known.end() ? -1 : found - known.begin(), token);
    };
    while (merges.size() < count) {
        std::map<std::pair<std::string, std::string>, int64_t> counts;
        for (const Strings& word : words) {
            for (size_t i = 0; i + 1 < word.size(); ++i) {
                ++counts[{word[i], word[i + 1]}];
            }
        }
        std::pair<std::string, std::string> best;
        int64_t most = 1;
        for (const auto& [pair, times] : counts) {
            const auto order = [&](const auto& one) { return std::pair(id_of(one.first), id_of(one.second)); };
            if (times > most || (times == most && most > 1 && order(pair) < order(best))) {
                best = pair;
                most = times;
            }
        }
        if (most < 2) {
            break;
        }
        const std::string joined = best.first + best.second;
        merges.push_back(best.first + ' ' + best.second);
        if (id_of(joined).first < 0) {
            known.push_back(joined);
        }
        for (Strings& word : words) {
            for (size_t i = 0; i + 1 < word.size(); ++i) {
                if (word[i] == best.first && word[i + 1] == best.second) {
                    word[i] = joined;
                    word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
                }
            }
        }
    }
    return merges;
}

TEST(BpeTrainerTest, MergesAreThoseOfCountingAnew) {
    std::string text;
    std::vector<Strings> words;
    for (uint64_t number = 0; number < 300; ++number) {
        Strings word;
        for (uint64_t i = 0; i < 1 + mix(number, 7U) % 9; ++i) {
            word.emplace_back(1, "aabbbcde"[mix(number, i) % 8]);
            text += word.back();
        }
        // A line end is a word of its own.
        text += "\n";
        words.push_back(std::move(word));
    }
    const Strings expected = merges_by_definition(words, 150);
    const Strings texts = {text};
    const auto json = nlohmann::json::parse(train_byte_level_bpe(texts, 257 + 150));
    const auto merges = json.at("model").at("merges").get<Strings>();
    ASSERT_GE(merges.size(), expected.size());
    EXPECT_EQ(Strings(merges.begin(), merges.begin() + static_cast<std::ptrdiff_t>(expected.size())), expected);
}

TEST(BpeTrainerTest, ATrainedTokenizerLoadsAndWritesAnyText) {
    const Strings texts = {stories(0, 200'000), "naïve café 東京都 😀", ""};
    const std::string json = train_byte_level_bpe(texts, 1000);
    const std::unique_ptr<Tokenizer> tokenizer = tokenizer_of_json(json, "trained");
    EXPECT_EQ(tokenizer->vocabulary(), 1000);
    EXPECT_EQ(tokenizer->end_of_document(), 0);
    EXPECT_EQ(tokenizer->token_text(0), "<|endoftext|>");
    for (const std::string& text : {stories(1000, 5'000), std::string("\0\xFF Unseen → 🙂\r\n", 20)}) {
        EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, Special::with), Special::without), text);
    }
    const std::string unseen = stories(1000, 5'000);
    EXPECT_LT(tokenizer->encode(unseen, Special::with).size() * 3, unseen.size());
}

TEST(BpeTrainerTest, TheSameTextsGiveTheSameTokenizer) {
    const Strings texts = {stories(0, 50'000), stories(500, 50'000)};
    EXPECT_EQ(train_byte_level_bpe(texts, 600), train_byte_level_bpe(texts, 600));
    // More tokens begin with the same ones.
    const auto few = nlohmann::json::parse(train_byte_level_bpe(texts, 400)).at("model").at("merges").get<Strings>();
    const auto many = nlohmann::json::parse(train_byte_level_bpe(texts, 600)).at("model").at("merges").get<Strings>();
    EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
}

TEST(BpeTrainerTest, StopsWhereNoPairOccursTwice) {
    const Strings texts = {"abc xyz"};
    const auto json = nlohmann::json::parse(train_byte_level_bpe(texts, 1000));
    EXPECT_EQ(json.at("model").at("vocab").size(), 257U);
    const Strings longer = {std::string(1'000'000, 'a') + std::string(1'000'000, ' ')};
    EXPECT_EQ(tokenizer_of_json(train_byte_level_bpe(longer, 270), "trained")->vocabulary(), 270);
}

TEST(BpeTrainerTest, SaysWhatItNeeds) {
    const Strings texts = {"text"};
    EXPECT_THAT([&] { (void)train_byte_level_bpe(texts, 256); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("at least 257 are needed")));
    const Strings nothing = {"", ""};
    EXPECT_THAT([&] { (void)train_byte_level_bpe(nothing, 300); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("no text to train")));
}

}  // namespace
}  // namespace accrue
