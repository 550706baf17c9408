#include "accrue/accumulate/ledger.h"

#include <gtest/gtest.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

GrainLedger with_grain(int64_t number) {
    GrainLedger ledger(3, 2);
    ledger.grain(number) = {
        .finished = true, .loss_sum = 0.1 * static_cast<double>(number + 1), .counted_tokens = number};
    ledger.record(number, 0) = {.squares = 1, .largest = static_cast<float>(number)};
    return ledger;
}

TEST(LedgerTest, MergingInAnyOrderGivesTheSameLedger) {
    GrainLedger forward = with_grain(0);
    forward.add(with_grain(1));
    forward.add(with_grain(2));
    GrainLedger backward = with_grain(2);
    backward.add(with_grain(1));
    backward.add(with_grain(0));
    EXPECT_EQ(forward, backward);
    EXPECT_TRUE(forward.missing().empty());
    EXPECT_EQ(forward.counted_tokens(), 3);
    EXPECT_EQ(forward.largest(), (std::vector<float>{2.0F, 0.0F}));
    EXPECT_EQ(forward.loss_sum(), backward.loss_sum());
}

TEST(LedgerTest, AGrainCannotBeCountedTwice) {
    GrainLedger ledger = with_grain(1);
    EXPECT_THROW(ledger.add(with_grain(1)), Error);
    EXPECT_EQ(ledger, with_grain(1)) << "a refused addition must leave the ledger as it was";
    EXPECT_THROW(ledger.add(GrainLedger(4, 2)), Error);
}

TEST(LedgerTest, TheLowestBadGrainIsNamedWithItsFirstTensor) {
    GrainLedger ledger(3, 2);
    EXPECT_FALSE(ledger.first_bad().has_value());
    ledger.record(2, 0).not_finite = true;
    ledger.record(1, 1).not_finite = true;
    EXPECT_EQ(ledger.first_bad()->grain, 1);
    EXPECT_EQ(ledger.first_bad()->tensor, 1);
}

}  // namespace
}  // namespace accrue
