#include "accrue/data/cache/document_selection.h"

#include <set>

#include <gmock/gmock.h>

#include "accrue/base/error.h"
#include "accrue/data/cache/token_cache_test_support.h"

namespace accrue {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class DocumentSelectionTest : public CacheFolderTest {
protected:
    static std::string numbered_lines(int first, int count) {
        std::string text;
        for (int i = first; i < first + count; ++i) {
            text += "document " + std::to_string(i) + "\n";
        }
        return text;
    }

    static std::set<std::string> texts_of(const DocumentSelection& selection) {
        std::set<std::string> texts;
        for (int64_t i = 0; i < selection.size(); ++i) {
            texts.insert(text_of(selection.cache(), selection.document(i)));
        }
        return texts;
    }

    static std::string error_of(const std::shared_ptr<const TokenCache>& cache, double fraction) {
        try {
            (void)DocumentSelection::split(cache, fraction);
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }
};

TEST_F(DocumentSelectionTest, ASplitIsDisjointAndWhole) {
    const auto cache = open_token_cache(source({file("a.txt", numbered_lines(0, 2000))}), options());
    const auto split = DocumentSelection::split(cache, 0.1);
    const auto train = texts_of(split.train);
    const auto validation = texts_of(split.validation);
    // Five standard deviations of a binomial distribution around its mean of 200.
    EXPECT_NEAR(static_cast<double>(validation.size()), 200, 5 * 13.4);
    EXPECT_EQ(train.size() + validation.size(), 2000U);
    EXPECT_TRUE(std::none_of(train.begin(), train.end(), [&](const auto& text) { return validation.count(text) > 0; }));
    EXPECT_EQ(split.train.facts().tokens + split.validation.facts().tokens, cache->token_count());
}

TEST_F(DocumentSelectionTest, TokensBeforeAPlaceAddUp) {
    const auto cache = open_token_cache(source({file("a.txt", numbered_lines(95, 20))}), options());
    const auto split = DocumentSelection::split(cache, 0.5);
    for (const DocumentSelection& selection : {split.train, split.validation, DocumentSelection::all_of(cache)}) {
        int64_t tokens = 0;
        for (int64_t i = 0; i < selection.size(); ++i) {
            EXPECT_EQ(selection.tokens_before(i), tokens);
            tokens += cache->document(selection.document(i)).size();
        }
        EXPECT_EQ(selection.tokens_before(selection.size()), tokens);
    }
}

TEST_F(DocumentSelectionTest, AddingFilesMovesNoDocument) {
    const auto first = file("a.txt", numbered_lines(0, 500));
    const auto second = file("b.txt", numbered_lines(500, 500));
    const auto small = DocumentSelection::split(open_token_cache(source({first}), options()), 0.2);
    const auto large = DocumentSelection::split(open_token_cache(source({second, first}), options()), 0.2);
    const auto validation = texts_of(large.validation);
    for (const std::string& text : texts_of(small.validation)) {
        EXPECT_EQ(validation.count(text), 1U) << text;
    }
    const auto train = texts_of(large.train);
    for (const std::string& text : texts_of(small.train)) {
        EXPECT_EQ(train.count(text), 1U) << text;
    }
}

TEST_F(DocumentSelectionTest, AnotherTokenizerMovesNoDocument) {
    const auto files = source({file("a.txt", numbered_lines(0, 200))});
    TokenSource upside_down = files;
    upside_down.settings = "upside down";
    upside_down.tokenize = [&](const Document& document, PiecePlace place, TokenizedDocument& tokenized) {
        files.tokenize(document, place, tokenized);
        for (int32_t& id : tokenized.ids) {
            id = 255 - id;
        }
    };
    const auto one = DocumentSelection::split(open_token_cache(files, options()), 0.3);
    const auto other = DocumentSelection::split(open_token_cache(upside_down, options()), 0.3);
    ASSERT_EQ(one.validation.size(), other.validation.size());
    for (int64_t i = 0; i < one.validation.size(); ++i) {
        EXPECT_EQ(one.validation.document(i), other.validation.document(i));
    }
    EXPECT_NE(one.validation.facts().digest, other.validation.facts().digest);
}

TEST_F(DocumentSelectionTest, EqualDocumentsStayTogether) {
    std::string text = numbered_lines(0, 50);
    const auto cache = open_token_cache(source({file("a.txt", text + text)}), options());
    const auto split = DocumentSelection::split(cache, 0.5);
    EXPECT_EQ(texts_of(split.train).size() * 2, static_cast<size_t>(split.train.size()));
    EXPECT_EQ(texts_of(split.validation).size() * 2, static_cast<size_t>(split.validation.size()));
}

TEST_F(DocumentSelectionTest, FactsAreThoseOfTheSelection) {
    const auto cache = open_token_cache(source({file("a.txt", many_lines(100))}), options());
    const auto split = DocumentSelection::split(cache, 0.5);
    for (const DocumentSelection& selection : {split.train, split.validation}) {
        int64_t counted = 0;
        int64_t longest = 0;
        int32_t largest = -1;
        for (int64_t i = 0; i < selection.size(); ++i) {
            const TokenRange tokens = cache->document(selection.document(i));
            counted += cache->counted_in(tokens);
            longest = std::max(longest, tokens.size());
            largest = std::max(largest, cache->record(selection.document(i)).largest_token);
        }
        EXPECT_EQ(selection.facts().counted, counted);
        EXPECT_EQ(selection.facts().longest_document, longest);
        EXPECT_EQ(selection.facts().largest_token, largest);
        const TokenRange document = cache->document(selection.facts().largest_document);
        std::vector<int32_t> ids(1);
        const int64_t place = document.begin + selection.facts().largest_place;
        cache->copy_ids({place, place + 1}, ids);
        EXPECT_EQ(ids.front(), largest);
    }
}

TEST_F(DocumentSelectionTest, ADamagedListIsMadeAgain) {
    const auto cache = open_token_cache(source({file("a.txt", numbered_lines(0, 100))}), options());
    const auto before = texts_of(DocumentSelection::split(cache, 0.25).validation);
    int lists = 0;
    for (const auto& entry : std::filesystem::directory_iterator(cache->folder())) {
        if (entry.path().filename().string().rfind("split-", 0) == 0) {
            cut_file(entry.path(), 100);
            ++lists;
        }
    }
    EXPECT_EQ(lists, 1);
    EXPECT_EQ(texts_of(DocumentSelection::split(cache, 0.25).validation), before);
}

TEST_F(DocumentSelectionTest, ASideWithoutDocumentsIsAnError) {
    const auto cache = open_token_cache(source({file("a.txt", "one\ntwo\n")}), options());
    EXPECT_THAT(error_of(cache, 1e-9), AllOf(HasSubstr("data.validation_fraction is 1e-09"),
                                             HasSubstr("of 2 documents none is left for validation")));
    EXPECT_THAT(error_of(cache, 0.999999999), HasSubstr("none is left for training"));
}

}  // namespace
}  // namespace accrue
