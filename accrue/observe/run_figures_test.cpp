#include "accrue/observe/run_figures.h"

#include <cmath>

#include <gtest/gtest.h>

namespace accrue {
namespace {

TEST(ThinnedValuesTest, FewValuesHaveTheirExactMedian) {
    ThinnedValues values;
    EXPECT_TRUE(std::isnan(values.median()));
    for (const double value : {5.0, kNothing, 1.0, 3.0}) {
        values.add(value);
    }
    EXPECT_EQ(values.median(), 3);
    values.add(4);
    EXPECT_EQ(values.median(), 3.5);
}

TEST(ThinnedValuesTest, AnyNumberOfValuesTakesLittleMemoryAndKeepsTheMedianNear) {
    constexpr int64_t kValues = 1'000'000;
    ThinnedValues values;
    for (int64_t i = 0; i < kValues; ++i) {
        values.add(static_cast<double>((i * 7919) % kValues));  // each number below kValues once, scattered
        ASSERT_LT(values.kept(), ThinnedValues::kMost);
    }
    EXPECT_GE(values.kept(), ThinnedValues::kMost / 4);
    EXPECT_NEAR(values.median() / kValues, 0.5, 0.01);
}

TEST(RunFiguresTest, AreThoseOfAllRowsInAnyOrder) {
    RunFigures run;
    EXPECT_EQ(run.rows, 0);
    run.add({.step = 2, .loss = kNothing, .tokens = 5, .skipped = 1, .peak_bytes = 8});
    run.add({.step = 1, .loss = 4, .validation_loss_before = 6, .tokens = 7});
    run.add({.step = 3, .loss = 3});
    EXPECT_EQ(run.first_step, 1);
    EXPECT_EQ(run.last_step, 3);
    EXPECT_EQ(run.loss.first, 4);
    EXPECT_EQ(run.loss.last, 3);
    EXPECT_EQ(run.loss.count, 2);
    EXPECT_EQ(run.validation_loss.count, 0);
    EXPECT_EQ(run.validation_before, 6);
    EXPECT_EQ(run.tokens, 12);
    EXPECT_EQ(run.skipped, 1);
    EXPECT_EQ(run.peak_bytes, 8);
    for (int64_t step = 4; step < 20; ++step) {
        run.add({.step = step});
    }
    EXPECT_EQ(run.last_rows.size(), RunFigures::kLastRows);
    EXPECT_EQ(run.last_rows.front().step, 10);
}

// A run that three workers began, one process went on with, and two workers ended; of the second leader's a worker was lost too.
TEST(RunFiguresTest, WhatWorkersLostIsCountedOverProcesses) {
    RunFigures run;
    EXPECT_EQ(text_of(run.workers), "");
    run.add({.step = 1,
             .seconds = 2,
             .workers = 3,
             .exchange_seconds = 1,
             .exchange_bytes = 1024,
             .lost_workers = 0,
             .grains_recomputed = 0});
    EXPECT_EQ(text_of(run.workers), "3; exchange of sums: 50% of the time, 1.00 KiB a step");
    run.add({.step = 2,
             .seconds = 2,
             .workers = 3,
             .exchange_seconds = 0,
             .exchange_bytes = 1024,
             .lost_workers = 2,
             .grains_recomputed = 5});
    run.add({.step = 3, .seconds = 100});
    run.add({.step = 4,
             .seconds = 6,
             .workers = 2,
             .exchange_seconds = 1,
             .exchange_bytes = 1024,
             .lost_workers = 2,
             .grains_recomputed = 4});
    run.add({.step = 5,
             .seconds = 6,
             .workers = 2,
             .exchange_seconds = 2,
             .exchange_bytes = 1024,
             .lost_workers = 3,
             .grains_recomputed = 4});
    EXPECT_EQ(run.workers.lost.total(), 5);
    EXPECT_EQ(run.workers.recomputed_grains.total(), 9);
    EXPECT_EQ(text_of(run.workers),
              "2; lost 5, and 9 grain(s) computed again; exchange of sums: 25% of the time, 1.00 KiB a step");
}

}  // namespace
}  // namespace accrue
