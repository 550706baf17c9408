#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/data/dataset.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
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

class TextDatasetTest : public testing::Test {
protected:
    TextDatasetTest() { fs::create_directories(folder_); }
    ~TextDatasetTest() override { fs::remove_all(folder_); }

    [[nodiscard]] fs::path file(const std::string& name, const std::string& text) const {
        write_text(folder_ / name, text);
        return folder_ / name;
    }

    fs::path folder_ = fs::path(testing::TempDir()) /
                       (std::string("accrue_text_dataset_test_") +
                        testing::UnitTest::GetInstance()->current_test_info()->name() + "_" + std::to_string(getpid()));
};

TEST_F(TextDatasetTest, FilesAreJoinedAndEachIsEnded) {
    const auto data = open_dataset({file("a.txt", "ab"), file("b.txt", "\xff")}, 100);
    ASSERT_EQ(data->size(), 1);
    EXPECT_THAT(data->sample(0).tokens, ElementsAre('a', 'b', 256, 255));
    EXPECT_THAT(data->sample(0).targets, ElementsAre('b', 256, 255, 256));
}

TEST_F(TextDatasetTest, TheLargestTokenIsTheFirstEnd) {
    const auto largest = open_dataset({file("a.txt", "ab"), file("b.txt", "c")}, 100)->largest_token();
    EXPECT_EQ(largest.token, 256);
    EXPECT_THAT(largest.where, AllOf(HasSubstr("a.txt"), HasSubstr("sample 0, place 2")));
}

TEST_F(TextDatasetTest, TheFingerprintFollowsTheSamplesAndNotTheNames) {
    const auto one = open_dataset({file("a.txt", "abcd")}, 2)->fingerprint();
    EXPECT_EQ(open_dataset({file("b.txt", "abcd")}, 2)->fingerprint(), one);
    EXPECT_EQ(dataset_of_tokens({'a', 'b', 'c', 'd', 256}, 2, "memory")->fingerprint(), one);
    EXPECT_NE(open_dataset({file("a.txt", "abcd")}, 3)->fingerprint(), one);
    EXPECT_NE(open_dataset({file("a.txt", "abce")}, 2)->fingerprint(), one);
}

TEST_F(TextDatasetTest, AnEmptyFileIsAnError) {
    try {
        (void)open_dataset({file("a.txt", "text"), file("empty.txt", "")}, 4);
        FAIL() << "no error";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("empty.txt"), HasSubstr("is empty")));
    }
}

}  // namespace
}  // namespace accrue
