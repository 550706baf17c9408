#include "accrue/train/plan_choice.h"

#include <fstream>
#include <limits>

#include "tests/sanitized.h"
#include <gmock/gmock.h>

#include "accrue/base/error.h"
#include "accrue/model/families.h"

namespace accrue {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kRunTokens = 256;
constexpr int kRunThreads = 1;

MemoryBound room(int64_t bytes) {
    return {.bytes = bytes, .reason = "the test says so", .address_bytes = std::numeric_limits<int64_t>::max()};
}

// A job whose micro-batch takes more than the process's own ups and downs.
class PlanChoiceTest : public ::testing::Test {
protected:
    PlanChoiceTest() : model_(known_families().preset("tiny")) {
        settings_.window = {.samples = 16, .grain_samples = 8};
        std::ofstream("/proc/self/clear_refs") << 5;  // what other tests of this process held is no concern of these
    }

    [[nodiscard]] PlanChoice plan() const {
        return {settings_, model_, kRunTokens, kRunThreads, [this] { return now_; }};
    }
    // The process's peak with the fastest and with the smallest plan.
    [[nodiscard]] std::pair<int64_t, int64_t> extremes() const {
        (void)plan();  // what the process itself holds is measured again by the next plan, and must not have grown
        Planner planner(settings_, model_, kRunTokens, kRunThreads);
        const ProcessBase base = ProcessBase::measure();
        return {process_bytes(base, planner, planner.unlimited()),
                process_bytes(base, planner, planner.frontier(Rates::typical(settings_, kRunThreads)).back())};
    }

    Settings settings_;
    std::shared_ptr<const ModelSpec> model_;
    MemoryBound now_ = room(int64_t{1} << 40);
};

TEST_F(PlanChoiceTest, WithEnoughMemoryARunIsAsFastAsItCanBe) {
    const PlanChoice run = plan();
    EXPECT_EQ(text_of(run.plan()), "nothing recomputed");
    EXPECT_GE(run.address_bytes(), run.plan().arena_bytes);
    EXPECT_GE(run.peak_bytes(), run.plan().arena_bytes);
}

TEST_F(PlanChoiceTest, TheFastestPlanThatFitsIsTaken) {
    if (kSanitized) {
        GTEST_SKIP() << "a sanitizer keeps freed memory";
    }
    const auto [most, least] = extremes();
    ASSERT_GT(most, least + (int64_t{8} << 20)) << "the test needs room between them";
    int64_t before = std::numeric_limits<int64_t>::max();
    for (const double share : {1.0, 0.7, 0.4, 0.1}) {
        now_ = room(least + (int64_t{1} << 20) + static_cast<int64_t>(static_cast<double>(most - least) * share));
        settings_.compute.memory = parse_byte_size("1TiB");
        const PlanChoice run = plan();
        EXPECT_LE(run.plan().arena_bytes, now_.bytes);
        EXPECT_LE(run.plan().arena_bytes, before);
        before = run.plan().arena_bytes;
    }
}

TEST_F(PlanChoiceTest, WhatCannotFitIsRefusedWithTheSmallestPlan) {
    settings_.compute.memory = parse_byte_size("8MiB");
    try {
        (void)plan();
        FAIL() << "8 MiB are not enough";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("compute.memory is 8.00 MiB, but the smallest plan needs "));
        EXPECT_THAT(error.what(), HasSubstr("moments"));
        EXPECT_THAT(error.what(), HasSubstr("1 grain(s) a micro-batch"));
        EXPECT_THAT(error.what(), HasSubstr("smaller model"));
    }
    settings_.compute.recompute = Recompute::nothing;
    EXPECT_THROW(
        {
            try {
                (void)plan();
            } catch (const Error& error) {
                EXPECT_THAT(error.what(), HasSubstr("leave compute.recompute at \"auto\""));
                throw;
            }
        },
        Error);
}

TEST_F(PlanChoiceTest, AWindowWithMoreGrainsThanMemoryIsNamedAsTheCause) {
    settings_.window.samples = 1'000'000'000;
    now_ = room(int64_t{1} << 32);
    try {
        (void)plan();
        FAIL() << "records of so many grains do not fit";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("records of the window's"));
        EXPECT_THAT(error.what(), HasSubstr("set window.samples (or window.tokens) lower"));
        EXPECT_THAT(error.what(), Not(HasSubstr("smaller model")));
    }
}

TEST_F(PlanChoiceTest, ARunShrinksAtOnceAndGrowsWhenItHasBeenCalm) {
    if (kSanitized) {
        GTEST_SKIP() << "a sanitizer keeps freed memory";
    }
    const auto [most, least] = extremes();
    PlanChoice run = plan();
    const int64_t large = run.plan().arena_bytes;
    EXPECT_FALSE(run.reconsider());
    now_ = room((most + least) / 2);
    const auto smaller = run.reconsider();
    ASSERT_TRUE(smaller);
    EXPECT_THAT(smaller->note, HasSubstr("less memory: the test says so: from here on"));
    EXPECT_LT(run.plan().arena_bytes, large);
    EXPECT_FALSE(run.reconsider()) << "it fits now";
    for (int window = 0; window < 2; ++window) {
        now_ = room(int64_t{1} << 40);
        EXPECT_FALSE(run.reconsider());
        EXPECT_FALSE(run.reconsider());
        now_ = room((most + least) / 2);
        EXPECT_FALSE(run.reconsider()) << "that was not calm";
    }
    now_ = room(int64_t{1} << 40);
    EXPECT_FALSE(run.reconsider());
    EXPECT_FALSE(run.reconsider());
    const auto larger = run.reconsider();
    ASSERT_TRUE(larger);
    EXPECT_THAT(larger->note, HasSubstr("more memory"));
    EXPECT_EQ(run.plan().arena_bytes, large);
    EXPECT_FALSE(run.reconsider());
}

TEST_F(PlanChoiceTest, BelowTheSmallestPlanARunGoesOnAndSaysSoOnce) {
    PlanChoice run = plan();
    now_ = room(1);
    ASSERT_TRUE(run.reconsider());
    const auto over = run.reconsider();
    ASSERT_TRUE(over);
    EXPECT_THAT(over->note, HasSubstr("the smallest plan is in use already"));
    EXPECT_FALSE(run.reconsider());
}

TEST_F(PlanChoiceTest, UnderPressureARunTakesTheNextSmallerPlan) {
    PlanChoice run = plan();
    const int64_t large = run.plan().arena_bytes;
    now_.pressure = 0.5;
    const auto smaller = run.reconsider();
    ASSERT_TRUE(smaller);
    EXPECT_THAT(smaller->note, HasSubstr("memory is under pressure"));
    EXPECT_LT(run.plan().arena_bytes, large);
}

TEST_F(PlanChoiceTest, AddressesAreNotReservedBeyondTheirLimit) {
    const PlanChoice free = plan();
    now_.address_bytes = free.plan().arena_bytes + (int64_t{4} << 20);
    const PlanChoice bound = plan();
    EXPECT_LT(bound.address_bytes(), free.address_bytes());
    EXPECT_GE(bound.address_bytes(), bound.plan().arena_bytes);
}

}  // namespace
}  // namespace accrue
