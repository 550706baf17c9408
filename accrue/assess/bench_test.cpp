#include "accrue/assess/bench.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/assess/bench_report.h"
#include "accrue/assess/device_ceilings.h"
#include "accrue/base/error.h"
#include "accrue/train/settings_words.h"

namespace accrue {
namespace {

BenchRequest small_request() {
    return {.model = "tiny", .dtype = DType::fp32, .sequence = 16, .samples = 3, .threads = 1, .steps = 2};
}

// A measurement of steps of these lengths, of which half is waiting and half forward products.
StepsMeasurement steps_of(const std::vector<double>& seconds) {
    StepsMeasurement measurement{.steps = {},
                                 .rates = {1e9, 4e9, 2e9},
                                 .lasting_rates = {1e9, 1.5e9, 2e9},
                                 .undisturbed_seconds = 0.5 * *std::min_element(seconds.begin(), seconds.end()),
                                 .window_tokens = 64,
                                 .device = "paper"};
    for (const double time : seconds) {
        StepTimes& step = measurement.steps.emplace_back();
        step.seconds = time;
        step.parts[0] = time / 2;
        step.waiting = time / 2;
    }
    return measurement;
}

TEST(DeviceCeilingsTest, AreThoseOfWhatTheDeviceIsAskedFor) {
    Pool pool(1);
    for (const DType dtype : {DType::fp32, DType::bf16}) {
        DeviceCeilings ceilings({}, pool, dtype, {.product = 96, .copied_floats = 4096});
        EXPECT_GT(ceilings.product_rate(), 0);
        EXPECT_GT(ceilings.copy_bandwidth(), 0);
    }
}

TEST(BenchTest, OtherSettingsReachTheRunAndOwnOptionsAreNotDoubled) {
    BenchRequest request = small_request();
    request.overrides = {"window.grain_samples=2", "optimizer.moments=8bit", "model.layers=2"};
    const Settings settings = bench_settings(request);
    EXPECT_EQ(settings.window.grain_samples, 2);
    EXPECT_EQ(settings.optimizer.moments, MomentFormat::eight_bits);
    EXPECT_EQ(bench_model(request)->blocks(), 2);
    const StepsMeasurement measurement = measure_steps(request);
    EXPECT_EQ(measurement.grains, 2);
    EXPECT_EQ(measurement.plan, "nothing recomputed");
    request.overrides = {"compute.dtype=bf16"};
    EXPECT_THAT(
        [&] { (void)bench_settings(request); },
        ::testing::ThrowsMessage<Error>("--set compute.dtype=bf16: accrue bench has --dtype for that. Give it there."));
}

TEST(BenchTest, WhatIsRecomputedMayBeLeftToThePlan) {
    BenchRequest request = small_request();
    request.recompute.reset();
    EXPECT_EQ(bench_settings(request).window.micro_batch_grains, 0) << "left to the plan too";
    const StepsMeasurement measurement = measure_steps(request);
    EXPECT_EQ(measurement.steps.size(), 2U);
    EXPECT_GT(measurement.arena_bytes, 0);
}

TEST(BenchTest, GrainsFollowTheDefaultRule) {
    BenchRequest request;
    EXPECT_EQ(bench_settings(request).window.grain_samples, 1);
    request.sequence = 128;
    EXPECT_EQ(bench_settings(request).window.grain_samples, 8);
}

TEST(BenchTest, AMicroBatchIsNoLargerThanTheWindow) {
    BenchRequest request;
    request.micro_batch = 100;
    EXPECT_EQ(bench_settings(request).window.micro_batch_grains, 4);
}

TEST(BenchTest, ManyThreadsTakeMoreGrainsAtATime) {
    BenchRequest request;
    request.samples = 64;
    for (const auto& [threads, grains] : {std::pair{1, 1}, {4, 1}, {8, 2}, {16, 4}}) {
        request.threads = threads;
        EXPECT_EQ(bench_settings(request).window.micro_batch_grains, grains) << threads;
    }
}

TEST(BenchTest, WhatIsRecomputedChangesTheWorkButNotTheLoss) {
    BenchRequest request = small_request();
    request.dtype = DType::bf16;
    const StepsMeasurement keeping = measure_steps(request);
    request.recompute = Recompute::block;
    request.loss_rows = 5;
    request.weight_copy = Choices::WeightCopy::converted_per_tile;
    const StepsMeasurement again = measure_steps(request);
    for (size_t step = 0; step < keeping.steps.size(); ++step) {
        EXPECT_EQ(again.steps[step].loss, keeping.steps[step].loss);
        EXPECT_GT(again.steps[step].calls, keeping.steps[step].calls);
    }
}

// Parts, steps and the whole are measured by clocks of their own, one inside the other: whatever else a machine does, none can
// be longer than the one around it.
TEST(BenchTest, PartsLieInsideTheirStepAndStepsInsideTheMeasurement) {
    const auto start = std::chrono::steady_clock::now();
    const StepsMeasurement measurement = measure_steps(small_request());
    const double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ASSERT_EQ(measurement.steps.size(), 2);
    EXPECT_EQ(measurement.rates.size(), 3);
    EXPECT_EQ(measurement.lasting_rates.size(), 3);
    for (size_t i = 0; i < measurement.rates.size(); ++i) {
        EXPECT_GT(measurement.lasting_rates[i], 0);
        EXPECT_LE(measurement.lasting_rates[i], measurement.rates[i]);
    }
    EXPECT_EQ(measurement.window_tokens, 48);
    EXPECT_GT(measurement.resident_peak_bytes, 0);
    constexpr double kRounding = 1e-9;
    double steps = 0;
    for (const StepTimes& step : measurement.steps) {
        const double parts = std::accumulate(step.parts.begin(), step.parts.end(), 0.0);
        EXPECT_LE(parts, step.seconds + kRounding);
        EXPECT_NEAR(step.waiting, step.seconds - parts, kRounding);
        EXPECT_GT(step.loss, 0);
        for (const Part part : {Part::products_forward, Part::products_input, Part::products_weight, Part::attention,
                                Part::loss_head, Part::norms, Part::elementwise, Part::optimizer}) {
            EXPECT_GT(step.parts[static_cast<size_t>(part)], 0) << name_of(part);
        }
        steps += step.seconds;
    }
    EXPECT_LT(steps, all) << "the step that is not measured comes on top";
    EXPECT_EQ(measurement.steps[0].calls, measurement.steps[1].calls) << "the same work";
}

TEST(BenchTest, AnUndisturbedStepIsMadeOfTheFastestCalls) {
    FastestCalls fastest;
    fastest.add(std::vector<double>{1, 5, 2}, 0.5);
    fastest.add(std::vector<double>{3, 4, 2}, 0.25);
    EXPECT_EQ(fastest.seconds(), 1 + 4 + 2 + 0.25);
    fastest.add(std::vector<double>{0, 0, 0, 0}, 0);  // a window that was replayed
    EXPECT_EQ(fastest.seconds(), 7.25);
    fastest.add(std::vector<double>{9, 9}, 1);  // those before were replayed
    EXPECT_EQ(fastest.seconds(), 19);
}

TEST(BenchTest, NoStepIsFasterThanAnUndisturbedOne) {
    const StepsMeasurement measurement = measure_steps(small_request());
    EXPECT_GT(measurement.undisturbed_seconds, 0);
    for (const StepTimes& step : measurement.steps) {
        EXPECT_LE(measurement.undisturbed_seconds, step.seconds + 1e-9);
    }
}

TEST(BenchTest, TheGradientIsCheckedInBothFormats) {
    BenchRequest request = small_request();
    const GradientCheck fp32 = check_gradient(request);
    EXPECT_LT(fp32.largest_error, fp32.allowed);
    EXPECT_GT(fp32.tensors, 10);
    request.dtype = DType::bf16;
    const GradientCheck bf16 = check_gradient(request);
    EXPECT_LT(bf16.largest_error, bf16.allowed);
    EXPECT_GT(bf16.largest_error, fp32.largest_error) << "bf16 was not used";
}

TEST(BenchTest, EveryKindOfSumsPassesTheCheckAndStaysInItsPlan) {
    for (const auto& [word, sums] : words_for(SumKind())) {
        BenchRequest request = small_request();
        request.steps = 1;
        request.sums = sums;
        const GradientCheck check = check_gradient(request);
        EXPECT_NO_THROW(require_right(check, request)) << word;
        const bool is_coarse = sums == SumKind::bf16 || sums == SumKind::bf16_stochastic;
        EXPECT_EQ(check.largest_error > 1e-4, is_coarse) << word << " were not used: " << check.largest_error;
        EXPECT_EQ(measure_steps(request).steps.size(), 1U) << word;
    }
}

TEST(BenchTest, AWrongGradientIsRefused) {
    GradientCheck check{
        .tensors = 1, .tokens = 1, .largest_error = 0.03, .worst_tensor = "lm_head.weight", .allowed = 0.03};
    EXPECT_NO_THROW(require_right(check, small_request()));
    check.largest_error = 0.031;
    try {
        require_right(check, small_request());
        FAIL() << "nothing was thrown";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), ::testing::HasSubstr("lm_head.weight differs by 0.031 from the fp32 reference"));
    }
}

TEST(BenchTest, AMeasurementSurvivesItsWayThroughAPipe) {
    const StepTimes step{.seconds = 2.5,
                         .parts = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.07, 0.08},
                         .waiting = 0.25,
                         .calls = 321,
                         .loss = 5.5,
                         .replays = 2};
    const StepsMeasurement sent{.steps = {step, {.seconds = 1}},
                                .rates = {1e9, 4e9},
                                .lasting_rates = {1e8, 2e8},
                                .undisturbed_seconds = 0.75,
                                .window_tokens = 64,
                                .parameters = 1234567,
                                .grain_samples = 3,
                                .grains = 5,
                                .micro_batches = 4,
                                .planned_peak_bytes = int64_t{9} << 30,
                                .resident_peak_bytes = int64_t{8} << 30,
                                .device = "paper \"and\" ink",
                                .threads = 7};
    StepsMeasurement with_parts = sent;
    with_parts.step_by_parts = step;
    with_parts.work[2] = {.flops = 3, .bytes = 4};
    with_parts.plan = "all kept";
    with_parts.arena_bytes = 77;
    const StepsMeasurement late = steps_from_json(nlohmann::ordered_json::parse(to_json(with_parts).dump()));
    ASSERT_TRUE(late.step_by_parts);
    EXPECT_EQ(late.step_by_parts->parts, step.parts);
    EXPECT_EQ(late.work[2].bytes, 4);
    EXPECT_EQ(late.plan, "all kept");
    EXPECT_EQ(late.arena_bytes, 77);
    const StepsMeasurement came = steps_from_json(nlohmann::ordered_json::parse(to_json(sent).dump()));
    ASSERT_EQ(came.steps.size(), 2U);
    EXPECT_EQ(came.steps[0].seconds, step.seconds);
    EXPECT_EQ(came.steps[0].parts, step.parts);
    EXPECT_EQ(came.steps[0].waiting, step.waiting);
    EXPECT_EQ(came.steps[0].calls, step.calls);
    EXPECT_EQ(came.steps[0].loss, step.loss);
    EXPECT_EQ(came.steps[0].replays, step.replays);
    EXPECT_EQ(came.steps[1].seconds, 1);
    EXPECT_EQ(came.rates, sent.rates);
    EXPECT_EQ(came.lasting_rates, sent.lasting_rates);
    EXPECT_EQ(came.undisturbed_seconds, sent.undisturbed_seconds);
    EXPECT_EQ(came.window_tokens, sent.window_tokens);
    EXPECT_EQ(came.parameters, sent.parameters);
    EXPECT_EQ(came.grain_samples, sent.grain_samples);
    EXPECT_EQ(came.grains, sent.grains);
    EXPECT_EQ(came.micro_batches, sent.micro_batches);
    EXPECT_EQ(came.planned_peak_bytes, sent.planned_peak_bytes);
    EXPECT_EQ(came.resident_peak_bytes, sent.resident_peak_bytes);
    EXPECT_EQ(came.device, sent.device);
    EXPECT_EQ(came.threads, sent.threads);
}

TEST(BenchReportTest, TakesMediansAndRatios) {
    BenchRequest request = small_request();
    request.sequence = 64;
    request.samples = 1;
    BenchFindings findings;
    findings.request = request;
    findings.beside_fp32 = {steps_of({1, 9}), steps_of({2})};
    findings.fp32 = {steps_of({1.5, 1.5, 7})};
    const auto json = bench_json(findings, {.commit = "abc", .command = "accrue bench"});
    EXPECT_EQ(json.at("tokens_per_second"), 32);  // 64 tokens in 2 s, the median of 1, 2 and 9
    EXPECT_EQ(json.at("exact_over_fp32"), 0.75);  // 1.5 s against 2
    EXPECT_EQ(json.at("multiply_add_flops"), 2e9);
    EXPECT_EQ(json.at("multiply_add_flops_best"), 4e9);
    const double flops = bench_model(request)->gradient_flops(64);
    EXPECT_DOUBLE_EQ(json.at("fraction_of_floor"), flops / 2e9 / 2);
    EXPECT_DOUBLE_EQ(json.at("fraction_of_lasting_floor"), flops / 1.5e9 / 2);
    EXPECT_DOUBLE_EQ(json.at("fastest_step_fraction"), flops / 4e9 / 1);
    EXPECT_DOUBLE_EQ(json.at("undisturbed_fraction"), flops / 4e9 / 0.5);
    EXPECT_EQ(json.at("undisturbed_step_ms"), 500);
    EXPECT_DOUBLE_EQ(json.at("floor_tokens_per_second"), 64 / (flops / 2e9));
    EXPECT_EQ(json.at("parts_ms").at("products_forward"), 1000);
    EXPECT_EQ(json.at("parts_ms").at("waiting"), 1000);
    EXPECT_EQ(json.at("commit"), "abc");
    findings.request.sums = SumKind::fp32;
    EXPECT_EQ(bench_json(findings, {}).at("step_ms"), 1500);
    EXPECT_EQ(bench_json(findings, {}).at("exact_over_fp32"), 0.75);
    EXPECT_THAT(bench_text(json), ::testing::HasSubstr("fraction of floor:"));
    EXPECT_THAT(bench_text(json), ::testing::HasSubstr("\nexact / fp32 sums:  0.750 of the speed\n"));
}

// Of a device that goes on when an operation returns: parts come from a step of their own, and each has a floor.
TEST(BenchReportTest, PartsOfALateDeviceHaveFloors) {
    BenchFindings findings;
    findings.request = small_request();
    findings.bandwidth = 1e9;
    StepsMeasurement measurement = steps_of({2});
    measurement.step_by_parts = StepTimes{.seconds = 3, .parts = {1, 0, 0, 0, 0, 0, 0, 2}, .calls = 5};
    measurement.work[0] = {.flops = 1e9, .bytes = 1e6};
    measurement.work[7] = {.flops = 0, .bytes = 5e8};
    findings.beside_fp32 = {measurement};
    findings.fp32 = {measurement};
    const auto json = bench_json(findings, {});
    EXPECT_EQ(json.at("parts_ms").at("optimizer"), 2000);
    EXPECT_EQ(json.at("step_by_parts_ms"), 3000);
    EXPECT_EQ(json.at("floor_parts_ms").at("products_forward"), 500) << "2e9 FLOP/s";
    EXPECT_EQ(json.at("floor_parts_ms").at("optimizer"), 500);
    EXPECT_DOUBLE_EQ(json.at("fraction_of_floor_by_parts"), 0.5);
    EXPECT_DOUBLE_EQ(json.at("floor_by_parts_tokens_per_second"), 64);
    EXPECT_FALSE(json.contains("undisturbed_fraction"));
}

TEST(BenchReportTest, NamesTheSumsThatWereMeasuredBesideFp32) {
    BenchFindings findings;
    findings.request = small_request();
    findings.request.sums = SumKind::bf16_kahan;
    findings.beside_fp32 = {steps_of({3})};
    findings.fp32 = {steps_of({1.5})};
    const auto json = bench_json(findings, {});
    EXPECT_EQ(json.at("bf16_kahan_over_fp32"), 0.5);
    EXPECT_EQ(json.at("step_ms"), 3000);
    EXPECT_EQ(json.at("step_seconds_bf16_kahan"), std::vector<double>{3});
    EXPECT_EQ(json.at("step_seconds_fp32"), std::vector<double>{1.5});
    EXPECT_FALSE(json.contains("exact_over_fp32"));
    EXPECT_THAT(bench_text(json), ::testing::HasSubstr("\nbf16-kahan / fp32 sums: 0.500 of the speed\n"));
}

}  // namespace
}  // namespace accrue
