#include "accrue/dist/shared_window.h"

#include <gmock/gmock.h>

namespace accrue {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// With these grains finished.
GrainLedger ledger_of(const std::vector<int64_t>& finished, int64_t grains = 4) {
    GrainLedger ledger(grains, 1);
    for (const int64_t grain : finished) {
        ledger.grain(grain) = {.finished = true, .loss_sum = static_cast<double>(grain), .counted_tokens = 1};
    }
    return ledger;
}

class SharedWindowTest : public ::testing::Test {
protected:
    // Grain 1 is in the sums of b; a is given 0 and 2, b is given 3.
    void share_out() {
        window_.begin(0, 1, record_, ledger_of({}));
        window_.begin(1, 1, record_, ledger_of({1}));
        window_.share_out(speeds_);
        EXPECT_EQ(window_.give(0, 1, speeds_), std::vector<int64_t>{0});
        EXPECT_EQ(window_.give(1, 1, speeds_), std::vector<int64_t>{2});
        EXPECT_EQ(window_.give(0, 1, speeds_), std::vector<int64_t>{3});
    }

    const WindowRecord record_{.window = {.samples = 4}, .step = 5};
    const std::vector<double> speeds_ = {0, 0};
    SharedWindow window_{record_, {"a", "b"}};
};

TEST_F(SharedWindowTest, FreeGrainsAreThoseInNobodysSums) {
    share_out();
    EXPECT_EQ(window_.holder(0), 0U);
    EXPECT_EQ(window_.holder(1), 1U);
    EXPECT_EQ(window_.holder(2), 1U);
    EXPECT_TRUE(window_.give(1, 1, speeds_).empty());
}

TEST_F(SharedWindowTest, ItIsOpenWhenAllHaveBegunIt) {
    window_.begin(1, 7, record_, ledger_of({}));
    EXPECT_FALSE(window_.is_begun_by_all());
    EXPECT_TRUE(window_.was_begun_by(1, 7));
    EXPECT_FALSE(window_.was_begun_by(1, 8));
    EXPECT_FALSE(window_.was_begun_by(0, 7));
    window_.begin(0, 3, record_, ledger_of({}));
    EXPECT_TRUE(window_.is_begun_by_all());
}

TEST_F(SharedWindowTest, AnotherRecordIsAnErrorThatShowsBoth) {
    WindowRecord other = record_;
    other.rate = 0.5;
    window_.begin(1, 1, record_, ledger_of({}));
    EXPECT_THAT([&] { window_.begin(0, 1, other, ledger_of({})); },
                ThrowsMessage<Error>(AllOf(HasSubstr("worker b begins " + to_json(record_)),
                                           HasSubstr("worker a begins " + to_json(other)))));
}

TEST_F(SharedWindowTest, AGrainInTwoSumsIsAnErrorThatNamesBothWorkers) {
    window_.begin(1, 1, record_, ledger_of({1, 3}));
    EXPECT_THAT([&] { window_.begin(0, 1, record_, ledger_of({3})); },
                ThrowsMessage<Error>(HasSubstr("step 5: grain 3 is in the sums of worker b and of worker a")));
}

TEST_F(SharedWindowTest, ALedgerOfAnotherShapeIsAnError) {
    EXPECT_THAT(
        [&] { window_.begin(0, 1, record_, ledger_of({}, 3)); },
        ThrowsMessage<Error>(HasSubstr("worker a has a ledger of 3 grains and 1 tensors, but the window has 4")));
    window_.begin(0, 1, record_, ledger_of({}));
    EXPECT_THAT([&] { window_.begin(1, 1, record_, GrainLedger(4, 2)); },
                ThrowsMessage<Error>(HasSubstr("worker b has a ledger of 4 grains and 2 tensors")));
}

TEST_F(SharedWindowTest, WhatAllAgreeOnIsEverybodysLedger) {
    share_out();
    EXPECT_FALSE(window_.agree(1, ledger_of({1, 2})));
    EXPECT_FALSE(window_.agree(1, ledger_of({1, 2}))) << "who asks again has come once";
    const auto agreed = window_.agree(0, ledger_of({0, 3}));
    ASSERT_TRUE(agreed);
    EXPECT_EQ(agreed->everyone, ledger_of({0, 1, 2, 3}));
    EXPECT_FALSE(agreed->stops);
    EXPECT_EQ(window_.agree(1, ledger_of({1, 2}))->everyone, agreed->everyone);
    EXPECT_FALSE(window_.is_left_open());
}

TEST_F(SharedWindowTest, AGrainInTheWrongSumsIsAnError) {
    share_out();
    EXPECT_THAT(
        [&] {
            (void)window_.agree(0, ledger_of({0, 2, 3}));
        },
        ThrowsMessage<Error>(HasSubstr("grain 2 is in the sums of worker a, but was given to worker b")));
    SharedWindow fresh(record_, {"a"});
    fresh.begin(0, 1, record_, ledger_of({}));
    fresh.share_out({0});
    EXPECT_THAT([&] { (void)fresh.agree(0, ledger_of({2})); },
                ThrowsMessage<Error>(HasSubstr("grain 2 is in the sums of worker a, but was given to nobody")));
}

TEST_F(SharedWindowTest, AGrainThatIsMissingIsAnErrorUnlessSomebodyStops) {
    share_out();
    (void)window_.agree(1, ledger_of({2}));
    const auto names_them = ThrowsMessage<Error>(HasSubstr(
        "step 5: all workers have finished, but grains are missing: 1 (given to worker b), 3 (given to worker a)"));
    EXPECT_THAT([&] { (void)window_.agree(0, ledger_of({0})); }, names_them);
    EXPECT_THAT([&] { (void)window_.agree(1, ledger_of({2})); }, names_them) << "whoever asks hears it";
    window_.stop();
    EXPECT_TRUE(window_.agree(0, ledger_of({0}))->stops);
    EXPECT_TRUE(window_.is_left_open());
}

TEST_F(SharedWindowTest, AGrainThatNobodyAskedForIsMissing) {
    window_.begin(0, 1, record_, ledger_of({0, 1, 2}));
    window_.begin(1, 1, record_, ledger_of({}));
    window_.share_out(speeds_);
    (void)window_.agree(1, ledger_of({}));
    EXPECT_THAT(
        [&] {
            (void)window_.agree(0, ledger_of({0, 1, 2}));
        },
        ThrowsMessage<Error>(HasSubstr("grains are missing: 3 (given to nobody)")));
}

TEST_F(SharedWindowTest, AfterAStopNobodyIsGivenAnything) {
    window_.begin(0, 1, record_, ledger_of({}));
    window_.begin(1, 1, record_, ledger_of({}));
    window_.share_out(speeds_);
    (void)window_.give(0, 1, speeds_);
    window_.stop();
    EXPECT_TRUE(window_.give(0, 1, speeds_).empty());
    EXPECT_TRUE(window_.give(1, 1, speeds_).empty());
}

TEST_F(SharedWindowTest, AStopThatComesAfterAllHaveAgreedComesTooLate) {
    share_out();
    (void)window_.agree(1, ledger_of({1, 2}));
    EXPECT_FALSE(window_.agree(0, ledger_of({0, 3}))->stops);
    window_.stop();
    EXPECT_FALSE(window_.agree(1, ledger_of({1, 2}))->stops) << "all must hear the same";
}

TEST_F(SharedWindowTest, NobodyVotesBeforeAllHaveAgreed) {
    share_out();
    (void)window_.agree(0, ledger_of({0, 3}));
    EXPECT_THAT(
        [&] {
            (void)window_.vote(0, 0, {.given = {1, 2}, .total = {1, 2}});
        },
        ThrowsMessage<Error>(HasSubstr("step 5: worker a votes before all have agreed")));
}

}  // namespace
}  // namespace accrue
