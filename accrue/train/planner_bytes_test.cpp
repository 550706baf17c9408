#include "tests/sanitized.h"
#include <gtest/gtest.h>

#include "accrue/kernels/device.h"
#include "accrue/kernels/dry/dry_kernels.h"
#include "accrue/kernels/gpus.h"
#include "accrue/model/families.h"
#include "accrue/train/engine.h"
#include "accrue/train/planner.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/step.h"

namespace accrue {
namespace {

// The real step on the real device in an arena of exactly the planned size: it must reach the planned peak, to the
// byte.
void expect_exact(const Settings& settings, const std::shared_ptr<const ModelSpec>& model, int64_t longest, int threads,
                  const Choices& choices = {}) {
    const ArenaPlan plan = plan_arena(settings, model, longest, threads, choices);
    Pool pool(threads);
    const DeviceChoice device = device_of(settings.compute);
    Arena arena(make_backing(device, plan.peak_bytes));
    const auto kernels = make_kernels(device, pool, arena);
    Engine engine(settings, model, longest, *kernels, choices);
    EXPECT_EQ(arena.high_water_bytes(), plan.resident_bytes);
    initialize_weights(engine.model->parameters(), 1, engine.put_weights());
    engine.refresh_copy();
    const LongestSamples samples(longest);
    const Window window{.samples = settings.window.samples, .grain_samples = settings.window.grain_samples};
    const StopFlag never{false};
    const auto report = run_step(engine, samples, window, never);
    ASSERT_TRUE(report && report->loss);
    std::vector<int64_t> grains;
    for (int64_t grain = 0; grain < engine.rules.micro_batch_grains; ++grain) {
        grains.push_back(grain);
    }
    (void)engine.model->losses(samples.load(window, grains), engine.weights_to_read());
    EXPECT_EQ(arena.high_water_bytes(), plan.peak_bytes);
    arena.restart_high_water();
    (void)engine.model->generator()->next_scores(std::vector<int32_t>(static_cast<size_t>(longest), 0),
                                                 engine.weights_to_read());
    EXPECT_LE(arena.high_water_bytes(), plan.peak_bytes) << "text comes from the memory that is there";
    EXPECT_EQ(arena.bytes_in_use(), plan.resident_bytes) << "a step must give back all it took";
    EXPECT_GT(plan.flops, 0);
}

std::shared_ptr<const ModelSpec> tied_gpt2() {
    return known_families().parse(
        R"({"model_type": "gpt2", "vocab_size": 301, "n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 64,
            "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1})",
        "test", 40);
}

std::shared_ptr<const ModelSpec> normed_qwen3() {
    return known_families().parse(
        R"({"model_type": "qwen3", "vocab_size": 77, "hidden_size": 40, "intermediate_size": 100, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24, "max_position_embeddings": 64})",
        "test", 40);
}

TEST(PlannerBytesTest, TheDryRunCountsThePeakToTheByte) {
    for (const auto& model : {tied_gpt2(), normed_qwen3()}) {
        for (const DType dtype : {DType::fp32, DType::bf16}) {
            for (const SumKind sums : {SumKind::exact, SumKind::fp32}) {
                for (const int64_t micro_batch_grains : {1, 3}) {
                    for (const int threads : {1, 2}) {
                        SCOPED_TRACE(cat(model->family(), ", ", name_of(dtype), ", ", word_of(sums), ", ",
                                         micro_batch_grains, ", ", threads));
                        Settings settings;
                        settings.window = {.samples = 12, .grain_samples = 2, .micro_batch_grains = micro_batch_grains};
                        settings.compute.dtype = dtype;
                        settings.compute.sums = sums;
                        expect_exact(settings, model, 40, threads);
                    }
                }
            }
        }
    }
}

// With the workspaces of kernels and of the matrix library.
TEST(PlannerBytesTest, AGpuIsPlannedToTheByte) {
    if (gpus_of_machine().found.empty()) {
        GTEST_SKIP() << gpus_of_machine().why_none;
    }
    const Choices some[] = {{}, {.blocks = {Recompute::block, Recompute::cheap}, .waiting_grains = 3}};
    for (const auto& model : {tied_gpt2(), normed_qwen3()}) {
        for (const Choices& choices : some) {
            for (const DType dtype : {DType::bf16, DType::fp32}) {
                SCOPED_TRACE(cat(model->family(), ", ", name_of(dtype), ", ", choices.waiting_grains, " wait"));
                Settings settings;
                settings.window = {.samples = 4, .grain_samples = 1, .micro_batch_grains = 2};
                settings.compute.dtype = dtype;
                settings.compute.device = DeviceKind::cuda;
                expect_exact(settings, model, 40, 1, choices);
            }
        }
    }
}

// So that a plan, which covers the losses of as many samples, need not know that text can come from a model.
TEST(PlannerBytesTest, TextTakesNoMoreThanTheLossesOfASampleOfTheSameLength) {
    for (const auto& model : {tied_gpt2(), normed_qwen3()}) {
        for (const DType dtype : {DType::fp32, DType::bf16}) {
            for (const int threads : {1, 2, 16}) {
                for (const int64_t tokens : {1, 2, 7, 40}) {
                    for (const int64_t loss_rows : {1, 32, 512}) {
                        SCOPED_TRACE(
                            cat(model->family(), ", ", name_of(dtype), ", ", threads, ", ", tokens, ", ", loss_rows));
                        Arena arena = Arena::dry();
                        DryKernels kernels(arena, make_cpu_workspace(threads));
                        const auto made = model->make({.dtype = dtype, .longest_sample = tokens}, kernels);
                        made->choose({.blocks = {}, .loss_rows = loss_rows});
                        const LeasedAny flat = take_any_matrix(arena, dtype, 1, model->parameters().flat_elements);
                        const LeasedAny master =
                            take_any_matrix(arena, DType::fp32, 1, model->parameters().flat_elements);
                        const Weights weights{.master = master.view.as<float>(), .compute = flat.view};
                        const Window window{.samples = 1, .grain_samples = 1};
                        const std::vector<int64_t> grains = {0};
                        arena.restart_high_water();
                        (void)made->losses(LongestSamples(tokens).load(window, grains), weights);
                        const int64_t of_losses = arena.high_water_bytes();
                        arena.restart_high_water();
                        (void)made->generator()->next_scores(std::vector<int32_t>(static_cast<size_t>(tokens)),
                                                             weights);
                        EXPECT_LE(arena.high_water_bytes(), of_losses);
                    }
                }
            }
        }
    }
}

TEST(PlannerBytesTest, EveryChoiceIsPlannedToTheByte) {
    using enum Recompute;
    using enum Choices::WeightCopy;
    Settings settings;
    const int64_t grains = kSanitized ? 2 : 3;  // of a micro-batch
    settings.window = {.samples = 4 * grains, .grain_samples = 2, .micro_batch_grains = grains};
    for (const auto& model : {tied_gpt2(), normed_qwen3()}) {
        for (const DType dtype : {DType::fp32, DType::bf16}) {
            settings.compute.dtype = dtype;
            for (const auto& blocks : {std::vector{cheap, cheap}, {block, block}, {block, cheap}, {nothing, block}}) {
                for (const int64_t loss_rows : {1, 64, 1024}) {
                    for (const auto weight_copy : {kept, converted_per_tile}) {
                        SCOPED_TRACE(cat(model->family(), ", ", name_of(dtype), ", ", word_of(blocks[0]), " and ",
                                         word_of(blocks[1]), ", ", loss_rows, ", ", word_of(weight_copy)));
                        expect_exact(settings, model, 40, 2,
                                     {.blocks = blocks, .loss_rows = loss_rows, .weight_copy = weight_copy});
                    }
                }
            }
        }
    }
}

// What the blocks keep of one sample of 1,024 tokens in bf16: what a model needs while it computes, less what it would
// need without blocks.
double block_bytes(const std::string& preset, Recompute recompute) {
    Settings settings;
    settings.window = {.samples = 1, .grain_samples = 1, .micro_batch_grains = 1};
    const auto transient_bytes = [&](const std::shared_ptr<const ModelSpec>& model) {
        Choices choices;
        choices.blocks.assign(static_cast<size_t>(model->blocks()), recompute);
        const ArenaPlan plan = plan_arena(settings, model, 1024, 2, choices);
        return plan.peak_bytes - plan.resident_bytes;
    };
    const auto model = known_families().preset(preset);
    return static_cast<double>(transient_bytes(model) - transient_bytes(model->at_most({.blocks = 0})));
}

TEST(PlannerBytesTest, RecomputingCutsTheMemoryOfTheBlocks) {
    struct Claim {
        const char* preset;
        double cheap;
        double block;
    };
    for (const auto& [preset, cheap, block] : {Claim{"gpt2-124m", 1.55, 4}, Claim{"llama-350m", 1.4, 4}}) {
        const double all = block_bytes(preset, Recompute::nothing);
        EXPECT_GE(all / block_bytes(preset, Recompute::cheap), cheap) << preset;
        EXPECT_GE(all / block_bytes(preset, Recompute::block), block) << preset;
    }
}

// The rows of logits, and for bf16 the copy of the weights, are what these choices are about.
TEST(PlannerBytesTest, FewerRowsOfLogitsAndNoCopyOfTheWeightsTakeLess) {
    Settings settings;
    settings.window = {.samples = 1, .grain_samples = 1, .micro_batch_grains = 1};
    const auto model = known_families().preset("gpt2-124m");
    const ArenaPlan many = plan_arena(settings, model, 1024, 2, {});
    const ArenaPlan few = plan_arena(settings, model, 1024, 2, {.blocks = {}, .loss_rows = 64});
    EXPECT_EQ(many.resident_bytes, few.resident_bytes);
    // With few rows the scratch memory of the head's other products is the most.
    EXPECT_GT(many.peak_bytes - few.peak_bytes, (512 - 128) * model->vocabulary() * 4);
    const ArenaPlan converted = plan_arena(
        settings, model, 1024, 2,
        {.blocks = {}, .loss_rows = Choices::kLossRows, .weight_copy = Choices::WeightCopy::converted_per_tile});
    EXPECT_GE(many.resident_bytes - converted.resident_bytes, model->parameters().elements() * 2);
    EXPECT_EQ(many.peak_bytes - converted.peak_bytes, many.resident_bytes - converted.resident_bytes);
}

TEST(PlannerBytesTest, SmallFormatsArePlannedToTheByteAndTakeWhatTheyPromise) {
    using enum SumKind;
    const auto model = known_families().preset("tiny");
    Settings settings;
    settings.window = {.samples = 2, .grain_samples = 1, .micro_batch_grains = 1};
    const auto resident = [&](SumKind sums, MomentFormat moments) {
        settings.compute.sums = sums;
        settings.optimizer.moments = moments;
        return plan_arena(settings, model, 64, 1).resident_bytes;
    };
    const auto elements = static_cast<double>(model->parameters().flat_elements);
    const int64_t whole = resident(exact, MomentFormat::fp32);
    const auto saved = [&](SumKind sums, MomentFormat moments) {
        return static_cast<double>(whole - resident(sums, moments)) / elements;
    };
    EXPECT_NEAR(saved(fp32, MomentFormat::fp32), 4, 1e-3);
    EXPECT_NEAR(saved(bf16, MomentFormat::fp32), 6, 1e-3);
    EXPECT_NEAR(saved(bf16_stochastic, MomentFormat::fp32), 6, 1e-3);
    EXPECT_NEAR(saved(bf16_kahan, MomentFormat::fp32), 4, 1e-3);
    EXPECT_NEAR(saved(exact, MomentFormat::eight_bits), 8 - 2 * (1 + 4.0 / 128), 2e-3);
    EXPECT_NEAR(saved(bf16, MomentFormat::eight_bits), 6 + 8 - 2 * (1 + 4.0 / 128), 3e-3);
    for (const SumKind sums : {bf16, bf16_stochastic, bf16_kahan}) {
        SCOPED_TRACE(word_of(sums));
        settings.compute.sums = sums;
        settings.optimizer.moments = MomentFormat::eight_bits;
        expect_exact(settings, model, 64, 2);
    }
    settings.optimizer.name = OptimizerKind::sgd;
    expect_exact(settings, model, 64, 2);
}

TEST(PlannerBytesTest, TheDefaultJobIsPlannedExactlyToo) {
    Settings settings;
    settings.window = {.samples = 4, .grain_samples = 4, .micro_batch_grains = 1};
    expect_exact(settings, known_families().preset("tiny"), 256, 2);
}

TEST(PlannerBytesTest, AModelTooLargeForThisMachineCanStillBePlanned) {
    Settings settings;
    settings.window = {.samples = 1, .grain_samples = 1, .micro_batch_grains = 1};
    const ArenaPlan plan = plan_arena(settings, known_families().preset("llama-1.5b"), 1024, 2);
    const int64_t parameters = 1'452'394'496;
    EXPECT_GT(plan.resident_bytes, parameters * (4 + 2 + 8 + 8));  // master, copy, sums, two moments
    EXPECT_GT(plan.peak_bytes, plan.resident_bytes);
}

}  // namespace
}  // namespace accrue
