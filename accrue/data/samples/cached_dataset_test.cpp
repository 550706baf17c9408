#include "accrue/data/samples/cached_dataset.h"

#include <gmock/gmock.h>

#include "accrue/base/error.h"
#include "accrue/data/cache/token_cache_test_support.h"

namespace accrue {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int32_t kEnd = 256;

class CachedDatasetTest : public CacheFolderTest {
protected:
    [[nodiscard]] DocumentSelection documents(const std::string& text) {
        return DocumentSelection::all_of(open_token_cache(source({file("a.txt", text)}), options()));
    }

    static SampleOptions cut(int64_t sequence_length) {
        return {.sequence_length = sequence_length, .end_token = kEnd, .reset_attention = false};
    }
    static SampleOptions cut_with_reset(int64_t sequence_length) {
        return {.sequence_length = sequence_length, .end_token = kEnd, .reset_attention = true};
    }

    // What is promised of every sample.
    static void expect_consistent(const Dataset& data) {
        for (int64_t i = 0; i < data.size(); ++i) {
            const Sample sample = data.sample(i);
            ASSERT_EQ(sample.tokens.size(), sample.targets.size());
            EXPECT_LE(static_cast<int64_t>(sample.tokens.size()), data.longest());
            EXPECT_TRUE(sample.targets.empty() || sample.targets.back() >= 0);
            const auto counted =
                std::count_if(sample.targets.begin(), sample.targets.end(), [](int32_t target) { return target >= 0; });
            EXPECT_EQ(data.weight(i), counted) << "sample " << i;
        }
    }

    static std::string error_of(const std::function<std::unique_ptr<Dataset>()>& open) {
        try {
            (void)open();
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }
};

TEST_F(CachedDatasetTest, PackedSamplesAreThoseOfTheStreamInMemory) {
    std::vector<int32_t> stream;
    for (const std::string& text : {std::string("first"), std::string("2"), std::string(70, 'x')}) {
        stream.insert(stream.end(), text.begin(), text.end());
        stream.push_back(kEnd);
    }
    const auto selection = documents("first\n2\n" + std::string(70, 'x') + "\n");
    for (const int64_t length : {1, 2, 3, 5, 6, 7, 16, 78, 79, 1000}) {
        const auto packed = packed_dataset(selection, cut(length));
        const auto simple = dataset_of_tokens(stream, length, "memory");
        ASSERT_EQ(packed->size(), simple->size()) << length;
        EXPECT_EQ(packed->longest(), simple->longest());
        for (int64_t i = 0; i < simple->size(); ++i) {
            EXPECT_EQ(packed->sample(i).tokens, simple->sample(i).tokens);
            EXPECT_EQ(packed->sample(i).targets, simple->sample(i).targets);
            EXPECT_EQ(packed->weight(i), simple->weight(i));
            EXPECT_THAT(packed->sample(i).document_starts, IsEmpty());
        }
    }
}

TEST_F(CachedDatasetTest, MaskedTokensAreNoTargetsAndEndsAre) {
    const auto packed = packed_dataset(documents("ab|cd\nefghijkl|\nm\n"), cut(4));
    // a b c d END | e f g h i j k l END m END, cut after every fourth.
    ASSERT_EQ(packed->size(), 4);
    EXPECT_THAT(packed->sample(0).tokens, ElementsAre('a', 'b', 'c', 'd'));
    EXPECT_THAT(packed->sample(0).targets, ElementsAre(-1, 'c', 'd', kEnd));
    EXPECT_THAT(packed->sample(1).tokens, IsEmpty()) << "a sample that counts nothing is empty";
    EXPECT_EQ(packed->weight(1), 0);
    EXPECT_THAT(packed->sample(2).tokens, IsEmpty());
    EXPECT_THAT(packed->sample(3).tokens, ElementsAre('l', kEnd, 'm'));
    EXPECT_THAT(packed->sample(3).targets, ElementsAre(kEnd, 'm', kEnd));
}

TEST_F(CachedDatasetTest, SamplesAreCutAfterTheirLastTarget) {
    const auto packed = packed_dataset(documents("ab\nxyz|\n"), cut(4));
    EXPECT_THAT(packed->sample(0).tokens, ElementsAre('a', 'b'));
    EXPECT_THAT(packed->sample(0).targets, ElementsAre('b', kEnd));
}

TEST_F(CachedDatasetTest, WithResetSamplesSayWhereDocumentsBeginAndNothingIsPredictedAcross) {
    const auto packed = packed_dataset(documents("abc\nde\nf\n"), cut_with_reset(5));
    // a b c END d | e END f END
    ASSERT_EQ(packed->size(), 2);
    EXPECT_THAT(packed->sample(0).tokens, ElementsAre('a', 'b', 'c', kEnd, 'd'));
    EXPECT_THAT(packed->sample(0).targets, ElementsAre('b', 'c', kEnd, -1, 'e'));
    EXPECT_THAT(packed->sample(0).document_starts, ElementsAre(0, 4));
    EXPECT_THAT(packed->sample(1).tokens, ElementsAre('e', kEnd, 'f'));
    EXPECT_THAT(packed->sample(1).targets, ElementsAre(kEnd, -1, kEnd));
    EXPECT_THAT(packed->sample(1).document_starts, ElementsAre(0, 2)) << "0 even in the middle of a document";
}

TEST_F(CachedDatasetTest, ADocumentThatBeginsBehindTheLastTargetDoesNotBegin) {
    const auto packed = packed_dataset(documents("abc\nd\n"), cut_with_reset(4));
    // The target of END would be d, which is not counted: the sample ends before.
    EXPECT_THAT(packed->sample(0).tokens, ElementsAre('a', 'b', 'c'));
    EXPECT_THAT(packed->sample(0).document_starts, ElementsAre(0));
}

TEST_F(CachedDatasetTest, WeightsAndLengthsFitTheSamples) {
    const auto masked = documents(many_lines(300));
    for (const int64_t length : {1, 7, 64, 65, 500}) {
        expect_consistent(*packed_dataset(masked, cut(length)));
        expect_consistent(*packed_dataset(masked, cut_with_reset(length)));
        expect_consistent(*padded_dataset(masked, cut(length)));
        SampleOptions without_end = cut_with_reset(length);
        without_end.end_token.reset();
        expect_consistent(*packed_dataset(masked, without_end));
        expect_consistent(*padded_dataset(masked, without_end));
    }
}

TEST_F(CachedDatasetTest, WithoutAnEndDocumentsStandSideBySide) {
    const auto packed = packed_dataset(documents("ab\ncd\n"), {.sequence_length = 9, .end_token = {}});
    EXPECT_THAT(packed->sample(0).tokens, ElementsAre('a', 'b', 'c'));
    EXPECT_THAT(packed->sample(0).targets, ElementsAre('b', 'c', 'd'));
}

TEST_F(CachedDatasetTest, PaddedSamplesAreDocumentsCutToTheLength) {
    const auto padded = padded_dataset(documents("ab|c\nlonger\nprompt|x\nz\n"), cut(3));
    ASSERT_EQ(padded->size(), 4);
    EXPECT_THAT(padded->sample(0).tokens, ElementsAre('a', 'b', 'c'));
    EXPECT_THAT(padded->sample(0).targets, ElementsAre(-1, 'c', kEnd));
    EXPECT_THAT(padded->sample(1).tokens, ElementsAre('l', 'o', 'n'));
    EXPECT_THAT(padded->sample(1).targets, ElementsAre('o', 'n', 'g'));
    EXPECT_THAT(padded->sample(2).tokens, IsEmpty()) << "nothing that counts is left of it";
    EXPECT_EQ(padded->weight(2), 0);
    EXPECT_THAT(padded->sample(3).tokens, ElementsAre('z'));
    EXPECT_THAT(padded->sample(3).targets, ElementsAre(kEnd));
    EXPECT_EQ(padded->longest(), 3);
    EXPECT_EQ(padded_dataset(documents("ab\nc\n"), cut(100))->longest(), 2);
}

TEST_F(CachedDatasetTest, PaddedSaysWhatItCutsAndWhatCountsNothing) {
    // Cut to 4 tokens: nothing of the first, its end of the second, "ef" and its end of the third, "x" and its end of the
    // fourth, of which nothing is left that counts.
    const auto left_out = padded_dataset(documents("abc\nabcd\nabcdef\nprompt|x\n"), cut(3))->left_out();
    EXPECT_EQ(left_out.cut_documents, 3);
    EXPECT_EQ(left_out.cut_tokens, 1 + 3 + 2);
    EXPECT_EQ(left_out.uncounted_samples, 1);
    const auto whole = padded_dataset(documents("abc\nprompt|x\n"), cut(7))->left_out();
    EXPECT_EQ(whole.cut_documents + whole.cut_tokens + whole.uncounted_samples, 0);
    const SampleOptions without_end{.sequence_length = 3, .end_token = {}};
    const auto joined = padded_dataset(documents("abcd\nabcde\nx\n"), without_end)->left_out();
    EXPECT_EQ(joined.cut_documents, 1);
    EXPECT_EQ(joined.cut_tokens, 1);
    EXPECT_EQ(joined.uncounted_samples, 1) << "a single token is no target";
}

TEST_F(CachedDatasetTest, ALengthThatLeavesNothingToLearnIsAnErrorWithTheLongestDocument) {
    EXPECT_THAT(error_of([&] { return padded_dataset(documents("prompt|x\nanother prompt|y\n"), cut(4)); }),
                AllOf(HasSubstr("data.sequence_length is 4"), HasSubstr("a.txt, document 0"),
                      HasSubstr("all 4 are cut off"), HasSubstr("has 15 tokens"), HasSubstr("\"packed\"")));
    EXPECT_EQ(error_of([&] { return padded_dataset(documents("prompt|x\nanother prompt|y\n"), cut(6)); }), "no error");
}

TEST_F(CachedDatasetTest, TheLargestTokenIsNamedWithItsPlace) {
    const auto selection = documents("abc\nyzy\n");
    const auto end = packed_dataset(selection, cut(4))->largest_token();
    EXPECT_EQ(end.token, kEnd);
    EXPECT_THAT(end.where, HasSubstr("a.txt, document 0, place 3"));
    const auto letter = padded_dataset(selection, {.sequence_length = 4, .end_token = 0})->largest_token();
    EXPECT_EQ(letter.token, 'z');
    EXPECT_THAT(letter.where, HasSubstr("a.txt, document 1, place 1"));
}

TEST_F(CachedDatasetTest, FingerprintsFollowContentsAndOptions) {
    const auto selection = documents("abc\nd\n");
    const std::string one = packed_dataset(selection, cut(4))->fingerprint();
    EXPECT_EQ(packed_dataset(documents("abc\nd\n"), cut(4))->fingerprint(), one);
    // The same documents from two files.
    const auto files = source({file("b.txt", "abc\n"), file("c.txt", "d\n")});
    EXPECT_EQ(packed_dataset(DocumentSelection::all_of(open_token_cache(files, options())), cut(4))->fingerprint(),
              one);
    EXPECT_NE(packed_dataset(selection, cut(5))->fingerprint(), one);
    EXPECT_NE(packed_dataset(selection, cut_with_reset(4))->fingerprint(), one);
    EXPECT_NE(padded_dataset(selection, cut(4))->fingerprint(), one);
    EXPECT_NE(packed_dataset(selection, {.sequence_length = 4, .end_token = 7})->fingerprint(), one);
    EXPECT_NE(packed_dataset(documents("abd\nd\n"), cut(4))->fingerprint(), one);
    EXPECT_NE(packed_dataset(documents("d\nabc\n"), cut(4))->fingerprint(), one);
    EXPECT_NE(packed_dataset(documents("a|bc\nd\n"), cut(4))->fingerprint(), one);
}

TEST_F(CachedDatasetTest, NothingToLearnIsAnError) {
    EXPECT_THAT(error_of([&] { return packed_dataset(documents("ab\n"), cut(0)); }),
                HasSubstr("data.sequence_length is 0"));
    EXPECT_THAT(error_of([&] { return padded_dataset(documents("ab\n"), cut(-1)); }),
                HasSubstr("data.sequence_length is -1"));
    const SampleOptions without_end{.sequence_length = 4, .end_token = {}};
    EXPECT_THAT(error_of([&] { return packed_dataset(documents("a\n"), without_end); }),
                AllOf(HasSubstr("a.txt, document 0"), HasSubstr("has 1 token"), HasSubstr("at least 2")));
    EXPECT_THAT(error_of([&] { return padded_dataset(documents("a\nb\n"), without_end); }), HasSubstr("count nothing"));
    EXPECT_THAT(error_of([&] { return padded_dataset(documents("abc|\n"), without_end); }), HasSubstr("count nothing"));
    EXPECT_THAT(error_of([&] { return padded_dataset(documents("abc|\nx\n"), without_end); }),
                HasSubstr("count nothing"));
    EXPECT_THAT(error_of([&] { return packed_dataset(documents("abc|\nde|\n"), without_end); }),
                AllOf(HasSubstr("a.txt, document 0"), HasSubstr("count nothing"), HasSubstr("-100")));
}

}  // namespace
}  // namespace accrue
