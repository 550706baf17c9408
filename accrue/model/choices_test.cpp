#include "accrue/model/choices.h"

#include <gtest/gtest.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

std::string error_of(const auto& call) {
    try {
        call();
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

TEST(ChoicesTest, AChoiceNamesEveryLayerOrNone) {
    EXPECT_NO_THROW(check_choices({}, 3));
    EXPECT_NO_THROW(check_choices({.blocks = {Recompute::nothing, Recompute::cheap, Recompute::block}}, 3));
    EXPECT_EQ(error_of([] { check_choices({.blocks = {Recompute::cheap}}, 3); }),
              "what to recompute was chosen for 1 layers, but the model has 3. Choose for each of them, or for none.");
}

TEST(ChoicesTest, TheLossNeedsRows) {
    EXPECT_EQ(error_of([] { check_choices({.blocks = {}, .loss_rows = 0}, 3); }),
              "the loss was to be computed 0 rows at a time. Choose at least 1.");
}

}  // namespace
}  // namespace accrue
