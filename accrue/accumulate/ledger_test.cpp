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

std::string error_of_ledger(std::span<const std::byte> bytes, int64_t grains = 3, int64_t tensors = 2) {
    try {
        (void)GrainLedger::from_bytes(bytes, grains, tensors);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(LedgerTest, BytesAndBackKeepsEveryBit) {
    GrainLedger ledger = with_grain(2);
    ledger.add(with_grain(0));
    ledger.record(0, 1) = {.squares = 1e300, .largest = 1e-45F, .not_finite = true};
    EXPECT_EQ(GrainLedger::from_bytes(ledger.to_bytes(), 3, 2), ledger);
    EXPECT_EQ(GrainLedger::from_bytes(GrainLedger(5, 0).to_bytes(), 5, 0), GrainLedger(5, 0));
    EXPECT_EQ(GrainLedger::from_bytes(GrainLedger(0, 2).to_bytes(), 0, 2), GrainLedger(0, 2));
}

TEST(LedgerTest, EveryDamagedByteIsAnError) {
    GrainLedger ledger = with_grain(1);
    ledger.add(with_grain(2));
    const std::vector<std::byte> whole = ledger.to_bytes();
    EXPECT_EQ(error_of_ledger(whole), "no error");
    for (size_t place = 0; place < whole.size(); ++place) {
        std::vector<std::byte> damaged = whole;
        damaged[place] ^= std::byte{64};
        EXPECT_EQ(error_of_ledger(damaged).find("the ledger of a window is damaged: "), 0U) << "byte " << place;
        EXPECT_NE(error_of_ledger(std::span(whole).first(place)), "no error") << "cut to " << place << " bytes";
    }
    std::vector<std::byte> longer = whole;
    longer.push_back(std::byte{0});
    EXPECT_NE(error_of_ledger(longer), "no error");
}

TEST(LedgerTest, BytesOfAnotherWindowAreAnError) {
    EXPECT_EQ(error_of_ledger(with_grain(1).to_bytes(), 4, 2),
              "the ledger of a window is damaged: it is of 3 grains and 2 tensors, but the window has 4 and 2");
    EXPECT_EQ(error_of_ledger(with_grain(1).to_bytes(), 3, 1),
              "the ledger of a window is damaged: it is of 3 grains and 2 tensors, but the window has 3 and 1");
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
