#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/data/samples/dataset.h"

namespace accrue {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int32_t> count_up(int32_t count) {
    std::vector<int32_t> result;
    for (int32_t i = 0; i < count; ++i) {
        result.push_back(i);
    }
    return result;
}

TEST(StreamDatasetTest, TargetsAreTheInputsOnePlaceFurther) {
    const auto data = dataset_of_tokens(count_up(11), 4, "numbers");
    ASSERT_EQ(data->size(), 3);
    EXPECT_THAT(data->sample(0).tokens, ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(data->sample(0).targets, ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(data->sample(1).tokens, ElementsAre(4, 5, 6, 7));
    EXPECT_THAT(data->sample(1).targets, ElementsAre(5, 6, 7, 8));
    EXPECT_THAT(data->sample(2).tokens, ElementsAre(8, 9));
    EXPECT_THAT(data->sample(2).targets, ElementsAre(9, 10));
    EXPECT_EQ(data->weight(0), 4);
    EXPECT_EQ(data->weight(2), 2);
    EXPECT_EQ(data->longest(), 4);
}

TEST(StreamDatasetTest, EveryTokenButTheFirstIsATargetOnce) {
    for (const int32_t count : {2, 4, 5, 6, 9, 10}) {
        const auto data = dataset_of_tokens(count_up(count), 4, "numbers");
        std::vector<int32_t> targets;
        for (int64_t i = 0; i < data->size(); ++i) {
            const Sample sample = data->sample(i);
            EXPECT_EQ(sample.tokens.size(), sample.targets.size());
            EXPECT_EQ(data->weight(i), static_cast<int64_t>(sample.targets.size()));
            EXPECT_GE(data->weight(i), 1);
            targets.insert(targets.end(), sample.targets.begin(), sample.targets.end());
        }
        std::vector<int32_t> expected = count_up(count);
        expected.erase(expected.begin());
        EXPECT_EQ(targets, expected) << count;
    }
}

TEST(StreamDatasetTest, AShortStreamIsShorterThanTheSequence) {
    const auto data = dataset_of_tokens({7, 8, 9}, 256, "short");
    EXPECT_EQ(data->size(), 1);
    EXPECT_EQ(data->longest(), 2);
}

TEST(StreamDatasetTest, TheLargestTokenIsNamedWithItsPlace) {
    const auto middle = dataset_of_tokens({1, 2, 3, 900, 5, 6}, 2, "numbers")->largest_token();
    EXPECT_EQ(middle.token, 900);
    EXPECT_EQ(middle.where, "numbers, sample 1, place 1");
    const auto last = dataset_of_tokens({1, 2, 3, 4, 900}, 2, "numbers")->largest_token();
    EXPECT_EQ(last.where, "numbers, sample 1, place 2");
}

TEST(StreamDatasetTest, TooFewTokensOrTooShortASequenceIsAnError) {
    try {
        (void)dataset_of_tokens({1}, 4, "one token");
        FAIL() << "no error";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("one token has 1 tokens"));
    }
    try {
        (void)dataset_of_tokens({1, 2, 3}, 0, "numbers");
        FAIL() << "no error";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("data.sequence_length is 0"));
    }
}

TEST(StreamDatasetTest, TheFingerprintFollowsTheSamplesAndNotTheName) {
    const auto fingerprint = [](int32_t last, int64_t length, const char* name) {
        return dataset_of_tokens({1, 2, 3, 4, last}, length, name)->fingerprint();
    };
    const std::string one = fingerprint(5, 2, "numbers");
    EXPECT_EQ(fingerprint(5, 2, "other"), one);
    EXPECT_NE(fingerprint(5, 3, "numbers"), one);
    EXPECT_NE(fingerprint(6, 2, "numbers"), one);
}

}  // namespace
}  // namespace accrue
