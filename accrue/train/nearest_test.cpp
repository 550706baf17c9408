#include "accrue/train/nearest.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(NearestText, OnlyWhatIsNearIsMeant) {
    const std::vector<std::string> commands = {"train", "tokenize", "tokenizer", "sample", "eval"};
    EXPECT_EQ(nearest_text("trian", commands), "train");
    EXPECT_EQ(nearest_text("tarin", commands), "train");
    EXPECT_EQ(nearest_text("evla", commands), "eval");
    EXPECT_EQ(nearest_text("tok", commands), "tokenize") << "cut short";
    EXPECT_EQ(nearest_text("frobnicate", commands), "");
    EXPECT_EQ(nearest_text("deploy", commands), "");
    EXPECT_EQ(nearest_text("x", {}), "");
}

TEST(NearestText, CountsAddedDroppedChangedAndSwappedLetters) {
    EXPECT_EQ(edit_distance("", ""), 0);
    EXPECT_EQ(edit_distance("rate", ""), 4);
    EXPECT_EQ(edit_distance("rate", "rates"), 1);
    EXPECT_EQ(edit_distance("rate", "rte"), 1);
    EXPECT_EQ(edit_distance("rate", "mate"), 1);
    EXPECT_EQ(edit_distance("rate", "raet"), 1);
    EXPECT_EQ(edit_distance("rate", "seed"), 4);
}

}  // namespace
}  // namespace accrue
