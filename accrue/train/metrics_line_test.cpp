#include "accrue/train/metrics_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/file.h"
#include "accrue/base/test_places.h"
#include "accrue/observe/metric_table.h"

namespace accrue {
namespace {

std::vector<std::string> names_of(const nlohmann::ordered_json& line) {
    std::vector<std::string> names;
    for (const auto& [name, value] : line.items()) {
        names.push_back(name);
    }
    return names;
}

StepReport a_step() {
    return {.step = 1, .window = {.samples = 4, .grain_samples = 2}, .tokens = 10, .micro_batches = 2, .seconds = 0.5};
}

TEST(MetricsLineTest, ALineHasTheMetricsOfTheTableInItsOrder) {
    const StepSurroundings around{.validation_loss = 1,
                                  .validation_loss_before = 2,
                                  .weights_hash = "00",
                                  .epoch_seconds = 3,
                                  .startup_seconds = 4,
                                  .peak_bytes = 5,
                                  .planned_bytes = 6};
    StepReport step = a_step();
    step.loss_scale = 7;
    step.team = TeamFacts{.workers = 2};
    step.is_mixed = true;
    std::vector<std::string> all;
    for (const Metric& metric : Metrics::kAll) {
        all.emplace_back(metric.name);
    }
    EXPECT_EQ(names_of(metrics_line(step, around)), all);
}

TEST(MetricsLineTest, WhatIsNotThereIsNullOrLeftOut) {
    const auto line = metrics_line(a_step(), {.peak_bytes = 1});
    std::vector<std::string> usual;
    for (const Metric& metric : Metrics::kAll) {
        if (metric.presence != Metric::Presence::sometimes) {
            usual.emplace_back(metric.name);
            EXPECT_EQ(line.at(metric.name).is_null(), metric.presence == Metric::Presence::nullable) << metric.name;
        }
    }
    EXPECT_EQ(names_of(line), usual);
}

TEST(MetricsLineTest, AValidationLossThatCameLaterStandsInItsPlace) {
    const StepReport step = a_step();
    const StepSurroundings without{.peak_bytes = 1};
    StepSurroundings with = without;
    with.validation_loss = 2.5;
    EXPECT_EQ(with_validation_loss(metrics_line(step, without), 2.5).dump(), metrics_line(step, with).dump());
}

// On failure: replace the block in the page by the text that the test expects.
TEST(MetricsLineTest, ThePageOfRunsListsEveryMetric) {
    EXPECT_THAT(read_text(source_folder() / "docs/runs.md"),
                testing::HasSubstr("```text\n" + describe_metrics() + "```\n"));
}

}  // namespace
}  // namespace accrue
