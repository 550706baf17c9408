#include "accrue/train/planner.h"

#include <numeric>

#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/model/families.h"

namespace accrue {
namespace {

constexpr int64_t kTokens = 64;
constexpr int kThreads = 2;

Settings small_job() {
    Settings settings;
    settings.window = {.samples = 32, .grain_samples = 4, .micro_batch_grains = 0};
    return settings;
}

std::shared_ptr<const ModelSpec> small_model() {
    return known_families().parse(
        R"({"model_type": "llama", "vocab_size": 301, "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 6,
            "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64})",
        "test", kTokens);
}

TEST(PlannerTest, AChangedPlanTakesTheSameAsOneFromTheStart) {
    const Settings settings = small_job();
    Planner planner(settings, small_model(), kTokens, kThreads);
    for (const Recompute recompute : {Recompute::block, Recompute::nothing, Recompute::cheap}) {
        for (const auto copy : {Choices::WeightCopy::converted_per_tile, Choices::WeightCopy::kept}) {
            const Choices choices{.blocks = std::vector<Recompute>(6, recompute), .loss_rows = 32, .weight_copy = copy};
            const Plan plan = planner.plan_of(choices, 4);
            Settings fixed = settings;
            fixed.window.micro_batch_grains = 4;
            const ArenaPlan alone = plan_arena(fixed, small_model(), kTokens, kThreads, choices);
            EXPECT_EQ(plan.arena_bytes, alone.peak_bytes) << word_of(recompute);
            EXPECT_EQ(plan.resident_bytes, alone.resident_bytes) << word_of(recompute);
        }
    }
}

TEST(PlannerTest, WithoutLimitsNothingIsRecomputedAndAbout1024RowsPassTogether) {
    Planner planner(small_job(), small_model(), kTokens, kThreads);
    const Plan plan = planner.unlimited();
    EXPECT_EQ(plan.micro_batch_grains, 4);  // of 4 * 64 rows
    EXPECT_EQ(plan.blocks_with(Recompute::block) + plan.blocks_with(Recompute::cheap), 0);
    EXPECT_EQ(plan.choices.loss_rows, Choices::kLossRows);
    EXPECT_EQ(plan.choices.weight_copy, Choices::WeightCopy::kept);
    EXPECT_EQ(planner.window_grains(), 8);
    EXPECT_EQ(planner.window_tokens(), 32 * kTokens);
}

// What a run on a GPU takes whose memory is no concern.
Plan plan_on_gpu(const std::string& preset, int64_t samples, int64_t grain_samples) {
    Settings settings;
    settings.window = {.samples = samples, .grain_samples = grain_samples, .micro_batch_grains = 1};
    settings.compute.device = DeviceKind::cuda;
    settings.compute.recompute = Recompute::nothing;
    return Planner(settings, known_families().preset(preset), 1024, kThreads).unlimited();
}

TEST(PlannerTest, GradientsWaitWhereThatSparesMuchTime) {
    EXPECT_EQ(plan_on_gpu("gpt2-124m", 64, 1).choices.waiting_grains, 8);
    EXPECT_EQ(plan_on_gpu("gpt2-124m", 64, 4).choices.waiting_grains, 8);
    EXPECT_EQ(plan_on_gpu("gpt2-124m", 64, 8).choices.waiting_grains, 8);  // 3.7 GiB, for a twentieth of the time
    EXPECT_EQ(plan_on_gpu("llama-1.5b", 16, 1).choices.waiting_grains, 8);
}

// PyTorch 2.11, compiled, takes 15.74 GiB for the same micro-batch of the first (bench/results/against_pytorch-gpu.json).
TEST(PlannerTest, LargeGrainsLeaveTheMemoryToOthers) {
    const Plan llama = plan_on_gpu("llama-350m", 32, 8);
    EXPECT_EQ(llama.choices.waiting_grains, 0);
    EXPECT_LT(static_cast<double>(llama.arena_bytes), 15.74 * 0x1p30);
    EXPECT_EQ(plan_on_gpu("llama-350m", 256, 8).choices.waiting_grains, 0);
    EXPECT_EQ(plan_on_gpu("llama-1.5b", 16, 8).choices.waiting_grains, 0);
}

TEST(PlannerTest, OnTheFrontierLessMemoryCostsMoreTime) {
    Planner planner(small_job(), small_model(), kTokens, kThreads);
    const Rates rates = Rates::typical(planner.settings(), kThreads);
    const std::vector<Plan> plans = planner.frontier(rates);
    ASSERT_GT(plans.size(), 3U);
    for (size_t i = 1; i < plans.size(); ++i) {
        EXPECT_LT(plans[i].arena_bytes, plans[i - 1].arena_bytes);
        EXPECT_GE(plans[i].window_seconds(8, rates), plans[i - 1].window_seconds(8, rates));
    }
    EXPECT_EQ(plans.back().micro_batch_grains, 1);
    EXPECT_EQ(plans.back().parts.copy, 0);
    EXPECT_GT(plans.back().blocks_with(Recompute::block), 0);
}

TEST(PlannerTest, WhatTheSettingsFixStaysFixed) {
    Settings settings = small_job();
    settings.compute.recompute = Recompute::cheap;
    settings.window.micro_batch_grains = 3;
    Planner planner(settings, small_model(), kTokens, kThreads);
    for (const Plan& plan : planner.frontier(Rates::typical(settings, kThreads))) {
        EXPECT_EQ(plan.blocks_with(Recompute::cheap), 6);
        EXPECT_EQ(plan.micro_batch_grains, 3);
    }
}

// The report of a run of a billion steps is no larger than that of a million.
TEST(PlannerTest, ALongRunTakesNoMoreMemoryThanAShortOne) {
    const auto host_bytes = [](int64_t steps) {
        Settings settings = small_job();
        settings.schedule.steps = steps;
        return Planner(settings, small_model(), kTokens, kThreads).host_bytes(1);
    };
    EXPECT_EQ(host_bytes(1'000'000'000), host_bytes(1'000'000));
    EXPECT_LE(host_bytes(1'000'000'000) - host_bytes(1), int64_t{4} << 20);
}

TEST(PlannerTest, ThePartsAddUpToWhatIsResident) {
    for (const DType dtype : {DType::fp32, DType::bf16}) {
        Settings settings = small_job();
        settings.compute.dtype = dtype;
        Planner planner(settings, small_model(), kTokens, kThreads);
        const Plan plan = planner.unlimited();
        const ArenaParts& parts = plan.parts;
        EXPECT_EQ(parts.weights + parts.copy + parts.sums + parts.moments + parts.tables, plan.resident_bytes);
        EXPECT_EQ(parts.sums, 2 * parts.weights);
        EXPECT_EQ(parts.moments, 2 * parts.weights);
        EXPECT_EQ(parts.copy, dtype == DType::bf16 ? parts.weights / 2 : 0);
        EXPECT_EQ(parts.blocks.size(), 6U);
        // At least the stream before each half of a block, in fp32.
        EXPECT_GE(parts.blocks.front(), 2 * 1024 * 64 * 4);
        EXPECT_GE(parts.loss, 301 * 4 * 64 * 4) << "one grain's logits";
        const int64_t kept = std::accumulate(parts.blocks.begin(), parts.blocks.end(), int64_t{0});
        EXPECT_LE(plan.resident_bytes + kept + parts.loss, plan.arena_bytes);
    }
}

TEST(PlannerTest, TheWorkOfAMicroBatchIsCountedByPart) {
    Settings settings = small_job();
    settings.compute.dtype = DType::fp32;
    Planner planner(settings, small_model(), kTokens, kThreads);
    const auto flops = [](const Plan& plan, Part part) { return plan.work[static_cast<size_t>(part)].flops; };
    const Plan kept = planner.unlimited();
    const double tokens = 4 * 4 * kTokens;
    const double head = 2.0 * tokens * 64 * 301;
    EXPECT_EQ(flops(kept, Part::loss_head), 3 * head);  // forward, gradients of input and of weight
    EXPECT_EQ(flops(kept, Part::products_forward), flops(kept, Part::products_input));
    EXPECT_EQ(flops(kept, Part::products_forward), flops(kept, Part::products_weight));
    const double block = 2.0 * tokens * (64 * (64 + 2 * 32) + 64 * 64 + 64 * 2 * 160 + 160 * 64);
    EXPECT_EQ(flops(kept, Part::products_forward), 6 * block);
    // All of a block again but its last product, whose output nobody needs.
    const Plan again = planner.plan_of({.blocks = std::vector<Recompute>(6, Recompute::block)}, 4);
    EXPECT_EQ(flops(again, Part::products_forward), 2 * 6 * block - 6 * 2.0 * tokens * 160 * 64);
    EXPECT_EQ(flops(again, Part::products_weight), flops(kept, Part::products_weight));
    EXPECT_GT(kept.work[static_cast<size_t>(Part::optimizer)].bytes, 0);
}

TEST(PlannerTest, AWindowInTokensHasTheGrainsOfFullSamples) {
    Settings settings = small_job();
    settings.window.samples = 0;
    settings.window.tokens = 1000;
    EXPECT_EQ(Planner(settings, small_model(), kTokens, kThreads).window_grains(), 4);  // 16 samples of 64
}

}  // namespace
}  // namespace accrue
