#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/base/test_places.h"
#include "accrue/data/samples/dataset.h"
#include "accrue/tensor/safetensors.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TokenDatasetTest : public testing::Test {
protected:
    using Numbers = std::vector<int64_t>;

    struct Stored {
        std::string name;
        std::vector<int64_t> shape;
        Numbers numbers;
    };

    [[nodiscard]] fs::path file(const std::vector<Stored>& tensors, const std::string& name = "x.safetensors") const {
        std::vector<TensorToStore> to_store;
        for (const Stored& tensor : tensors) {
            to_store.push_back({tensor.name, "I64", tensor.shape, std::as_bytes(std::span(tensor.numbers))});
        }
        write_safetensors(folder_ / name, to_store);
        return folder_ / name;
    }

    [[nodiscard]] std::string error_of(const std::vector<Stored>& tensors) const {
        const fs::path path = file(tensors);
        try {
            (void)open_token_rows({path});
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }

    TemporaryFolder folder_;
};

TEST_F(TokenDatasetTest, LabelsAreShiftedAndMaskedAsInHuggingFace) {
    const auto data =
        open_token_rows({file({{"input_ids", {3, 4}, {1, 2, 3, 4, 5, 6, 7, 0, 8, 9, 0, 0}},
                               {"labels", {3, 4}, {1, 2, 3, 4, -100, -100, 7, -100, 8, -100, -100, -100}}})});
    ASSERT_EQ(data->size(), 3);
    EXPECT_THAT(data->sample(0).tokens, ElementsAre(1, 2, 3));
    EXPECT_THAT(data->sample(0).targets, ElementsAre(2, 3, 4));
    EXPECT_THAT(data->sample(1).tokens, ElementsAre(5, 6));
    EXPECT_THAT(data->sample(1).targets, ElementsAre(-1, 7));
    EXPECT_THAT(data->sample(2).tokens, IsEmpty());
    EXPECT_THAT(data->sample(2).targets, IsEmpty());
    EXPECT_EQ(data->left_out().uncounted_samples, 1);
    EXPECT_EQ(data->weight(0), 3);
    EXPECT_EQ(data->weight(1), 1);
    EXPECT_EQ(data->weight(2), 0);
    EXPECT_EQ(data->longest(), 3);
}

TEST_F(TokenDatasetTest, WithoutLabelsTheInputsAreTheLabels) {
    const auto data = open_token_rows({file({{"input_ids", {1, 3}, {4, 5, 6}}})});
    EXPECT_THAT(data->sample(0).tokens, ElementsAre(4, 5));
    EXPECT_THAT(data->sample(0).targets, ElementsAre(5, 6));
}

TEST_F(TokenDatasetTest, FilesMayHaveRowsOfDifferentLength) {
    const auto data = open_token_rows({file({{"input_ids", {1, 3}, {4, 5, 6}}}, "a.safetensors"),
                                       file({{"input_ids", {2, 2}, {7, 8, 9, 10}}}, "b.safetensors")});
    ASSERT_EQ(data->size(), 3);
    EXPECT_THAT(data->sample(2).tokens, ElementsAre(9));
    EXPECT_THAT(data->sample(2).targets, ElementsAre(10));
    EXPECT_EQ(data->longest(), 2);
    const auto largest = data->largest_token();
    EXPECT_EQ(largest.token, 10);
    EXPECT_THAT(largest.where, AllOf(HasSubstr("b.safetensors"), HasSubstr("sample 1, place 1")));
}

// A padding token may lie outside the vocabulary: nothing behind the last target is ever read.
TEST_F(TokenDatasetTest, TheLargestTokenIsLookedForInWhatIsKept) {
    const auto data =
        open_token_rows({file({{"input_ids", {1, 4}, {300, 2, 3, 5000}}, {"labels", {1, 4}, {9999, 2, 3, -100}}})});
    EXPECT_EQ(data->largest_token().token, 300);
    EXPECT_THAT(data->largest_token().where, HasSubstr("sample 0, place 0"));
}

TEST_F(TokenDatasetTest, TheSameSamplesHaveTheSameFingerprint) {
    const auto rows =
        open_token_rows({file({{"input_ids", {1, 4}, {1, 2, 3, 0}}, {"labels", {1, 4}, {1, 2, 3, -100}}})});
    EXPECT_EQ(rows->fingerprint(), dataset_of_tokens({1, 2, 3}, 4, "memory")->fingerprint());
}

TEST_F(TokenDatasetTest, AGoldenBatchIsRead) {
    const auto data = open_token_rows({source_folder() / "tests/golden/gpt2/batch.safetensors"});
    EXPECT_EQ(data->size(), 24);
    EXPECT_LE(data->longest(), 23);
    EXPECT_LT(data->largest_token().token, 101);
}

TEST_F(TokenDatasetTest, AWrongShapeIsAnError) {
    EXPECT_THAT(error_of({{"input_ids", {4}, {1, 2, 3, 4}}}),
                AllOf(HasSubstr("x.safetensors"), HasSubstr("shape [4]"), HasSubstr("[samples, tokens]")));
    EXPECT_THAT(error_of({{"input_ids", {0, 4}, {}}}), AllOf(HasSubstr("is empty"), HasSubstr("[0, 4]")));
    EXPECT_THAT(error_of({{"input_ids", {1, 2}, {1, 2}}, {"labels", {2, 1}, {1, 2}}}),
                AllOf(HasSubstr("labels has the shape [2, 1]"), HasSubstr("input_ids has [1, 2]")));
    EXPECT_THAT(error_of({{"ids", {1, 2}, {1, 2}}}), AllOf(HasSubstr("no tensor input_ids"), HasSubstr("It has: ids")));
}

TEST_F(TokenDatasetTest, AWrongDtypeIsAnError) {
    const std::vector<float> numbers = {1, 2};
    write_safetensors(folder_ / "f.safetensors", {{"input_ids", "F32", {1, 2}, std::as_bytes(std::span(numbers))}});
    try {
        (void)open_token_rows({folder_ / "f.safetensors"});
        FAIL() << "no error";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("f.safetensors"), HasSubstr("input_ids has the dtype F32")));
    }
}

TEST_F(TokenDatasetTest, AWrongNumberIsNamedWithItsPlace) {
    EXPECT_THAT(error_of({{"input_ids", {2, 2}, {1, 2, 3, -1}}}), HasSubstr("input_ids of sample 1, place 1 is -1"));
    EXPECT_THAT(error_of({{"input_ids", {1, 2}, {1, -100}}}), HasSubstr("input_ids of sample 0, place 1 is -100"));
    EXPECT_THAT(error_of({{"input_ids", {1, 2}, {int64_t{1} << 31, 2}}}), HasSubstr("place 0 is 2147483648"));
    EXPECT_THAT(error_of({{"input_ids", {1, 2}, {1, 2}}, {"labels", {1, 2}, {-99, 2}}}),
                AllOf(HasSubstr("labels of sample 0, place 0 is -99"), HasSubstr("or -100")));
}

TEST_F(TokenDatasetTest, NothingToLearnIsAnError) {
    EXPECT_THAT(error_of({{"input_ids", {1, 2}, {1, 2}}, {"labels", {1, 2}, {1, -100}}}),
                HasSubstr("no counted target"));
    EXPECT_THAT(error_of({{"input_ids", {2, 1}, {1, 2}}}), HasSubstr("no counted target"));
}

}  // namespace
}  // namespace accrue
