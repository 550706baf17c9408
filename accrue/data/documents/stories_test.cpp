#include "accrue/data/documents/stories.h"

#include <algorithm>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/data/documents/story_teller.h"
#include "accrue/data/documents/story_words.h"

namespace accrue {
namespace {

constexpr uint64_t kCount = 1000;

TEST(StoriesTest, TheSameNumberGivesTheSameStory) {
    for (uint64_t number = 0; number < 20; ++number) {
        EXPECT_EQ(story(number), story(number));
    }
    EXPECT_FALSE(story(~uint64_t{0}).empty());
}

TEST(StoriesTest, NoTwoAreEqual) {
    std::set<std::string> seen;
    for (uint64_t number = 0; number < kCount; ++number) {
        seen.insert(story(number));
    }
    EXPECT_EQ(seen.size(), kCount);
}

TEST(StoriesTest, EachIsOneParagraphOfPlainText) {
    for (uint64_t number = 0; number < kCount; ++number) {
        const std::string text = story(number);
        ASSERT_EQ(text.find('\n'), text.size() - 1) << text;
        for (const char letter : text.substr(0, text.size() - 1)) {
            ASSERT_TRUE(letter >= ' ' && letter <= '~') << text;
        }
        EXPECT_GE(text.size(), 400U) << text;
        EXPECT_LE(text.size(), 1000U) << text;
    }
}

// What a slip in a template would leave behind.
TEST(StoriesTest, NothingIsLeftOfTheTemplates) {
    for (uint64_t number = 0; number < kCount; ++number) {
        const std::string text = story(number);
        for (const char* slip : {"{", "}", "|", "  ", "..", " .", " ,", ".,"}) {
            ASSERT_EQ(text.find(slip), std::string::npos) << slip << " in " << text;
        }
    }
}

TEST(StoriesTest, ArticlesFitTheWordsBehindThem) {
    for (uint64_t number = 0; number < kCount; ++number) {
        const std::string text = story(number);
        std::istringstream words(text);
        std::string before;
        for (std::string word; words >> word; before = word) {
            const bool silent = word.starts_with("hour");
            const bool vowel = silent || std::string_view("aeiou").find(word[0]) != std::string_view::npos;
            ASSERT_FALSE((before == "a" || before == "A") && vowel) << word << " in " << text;
            ASSERT_FALSE((before == "an" || before == "An") && !vowel) << word << " in " << text;
        }
    }
}

// A question or a cry in quotation marks does not end its sentence: "Where?" asked Tom.
TEST(StoriesTest, SentencesBeginWithACapitalLetter) {
    for (uint64_t number = 0; number < kCount; ++number) {
        const std::string text = story(number);
        ASSERT_TRUE(text[0] >= 'A' && text[0] <= 'Z') << text;
        for (size_t place = 0; place + 2 < text.size(); ++place) {
            const bool ended = text[place] == '.' || text[place] == '!' || text[place] == '?';
            if (ended && text[place + 1] == ' ') {
                ASSERT_FALSE(text[place + 2] >= 'a' && text[place + 2] <= 'z') << text.substr(place) << " in " << text;
            }
        }
    }
}

TEST(StoriesTest, QuotationMarksComeInPairs) {
    for (uint64_t number = 0; number < kCount; ++number) {
        const std::string text = story(number);
        ASSERT_EQ(std::count(text.begin(), text.end(), '"') % 2, 0) << text;
    }
}

TEST(StoriesTest, TheHeroOfTheFirstSentenceComesBack) {
    for (uint64_t number = 0; number < kCount; ++number) {
        const std::string text = story(number);
        int most = 0;
        for (const auto& names : {kGirls, kBoys}) {
            for (const Words name : names) {
                int found = 0;
                for (size_t place = text.find(name); place != std::string::npos; place = text.find(name, place + 1)) {
                    ++found;
                }
                most = std::max(most, found);
            }
        }
        ASSERT_GE(most, 3) << text;
    }
}

TEST(StoriesTest, ManyAreDividedByOneEmptyLine) {
    EXPECT_EQ(stories(5, 1), story(5));
    const int64_t bytes = static_cast<int64_t>(story(5).size()) + 1;
    EXPECT_EQ(stories(5, bytes), story(5) + "\n" + story(6));
    EXPECT_GE(stories(0, 100'000).size(), 100'000U);
    EXPECT_EQ(stories(0, 0), "");
}

TEST(StoryTellerTest, FillsWordsArticlesAndCapitals) {
    StoryTeller teller(1);
    teller.set("thing", "old boat");
    teller.set("other", "kite with {a thing}");
    teller.say({"Here was {a thing}."});
    teller.say({"{Thing}, {a other}."});
    EXPECT_EQ(teller.text(), "Here was an old boat. Old boat, a kite with an old boat.");
    EXPECT_THROW(teller.say({"{missing}"}), Error);
}

}  // namespace
}  // namespace accrue
