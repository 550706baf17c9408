// A model family is one file (bigram_family.cpp) and one line in a list of families. Everything else takes it as it takes
// the decoders: steps, checkpoints, plans, numerics, whole runs.

#include "tests/bigram_family.h"
#include "tests/support.h"
#include <gmock/gmock.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/train/evaluate.h"
#include "accrue/train/state.h"
#include "accrue/train/trained_model.h"
#include "accrue/train/trainer.h"

namespace accrue::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kFamilySteps = 6;

class ModelFamilyTest : public ::testing::Test {
protected:
    ModelFamilyTest() {
        families_.add(bigram_family());  // the line
        std::filesystem::create_directory(folder_ / "shape");
        write_text(folder_ / "shape/config.json", R"({"model_type": "bigram", "vocab_size": 101, "places": 48})");
        write_ragged_data(folder_ / "data.safetensors", {});
    }

    [[nodiscard]] Settings settings(int64_t micro_batch_grains = 1) const {
        Settings settings = small_settings(folder_ / "shape", folder_ / "data.safetensors");
        settings.window.micro_batch_grains = micro_batch_grains;
        settings.schedule.steps = kFamilySteps;
        return settings;
    }
    [[nodiscard]] TestRun job(const Settings& settings, int threads) const { return {settings, threads, families_}; }

    TemporaryFolder folder_;
    ModelFamilies families_ = known_families();
};

TEST_F(ModelFamilyTest, HoweverAWindowIsCutTheBitsAreTheSame) {
    for (const DeviceKind device : {usual_device().kind, DeviceKind::reference}) {
        Settings whole = settings(4);
        whole.compute.device = device;
        TestRun first = job(whole, 1);
        const double loss = *first.step()->loss;
        const std::string expected = first.run(kFamilySteps);
        EXPECT_LT(*first.step()->loss, loss) << "it learns";
        for (const int64_t grains : {1, 2, 3}) {
            for (const int threads : {1, 3}) {
                Settings cut = settings(grains);
                cut.compute.device = device;
                EXPECT_EQ(job(cut, threads).run(kFamilySteps), expected)
                    << grains << " grains, " << threads << " threads";
            }
        }
    }
}

TEST_F(ModelFamilyTest, StoppedInsideAWindowItGoesOnWithTheSameBits) {
    TestRun stopped = job(settings(), 2);
    (void)stopped.run(2);
    ASSERT_FALSE(run_step(stopped.engine, StoppingLoader(stopped, 1), stopped.window(), stopped.stop).has_value());
    const std::string definition = definition_of(stopped.inputs, stopped.engine.model->parameters());
    save_state(stopped.engine, definition, folder_ / "checkpoints");
    TestRun resumed = job(settings(3), 1);
    load_state(resumed.engine, definition, checkpoint_path(folder_ / "checkpoints", 2));
    EXPECT_EQ(resumed.run(kFamilySteps), job(settings(4), 1).run(kFamilySteps));
}

TEST_F(ModelFamilyTest, AWholeRunPlansItsMemoryKeepsCheckpointsAndWritesAModel) {
    Settings here = settings(0);
    here.run.folder = (folder_ / "run").string();
    here.run.checkpoint_steps = 4;
    here.data.tokenizer = "byte";  // so that text could be shown
    RunClaim claim = RunClaim::of_new_run(here, "", Overwrite::no);
    const RunInputs inputs = open_inputs(here, nullptr, families_);
    Planner planner(settings_to_plan(inputs), inputs.model, inputs.longest_sample(), 2);
    const std::vector<Plan> plans = planner.frontier(Rates::typical(here, 2));
    EXPECT_GT(plans.front().arena_bytes, inputs.model->parameters().flat_elements * (4 + 8 + 8));
    EXPECT_LE(plans.back().arena_bytes, plans.front().arena_bytes);
    EXPECT_TRUE(plans.front().parts.blocks.empty()) << "it has no blocks";
    std::FILE* nowhere = std::fopen("/dev/null", "w");
    Progress progress(nowhere, false, kFamilySteps);
    const StopFlag never{false};
    const TrainSummary summary = train(inputs, claim, progress, never);
    std::fclose(nowhere);
    EXPECT_EQ(summary.step, kFamilySteps);
    EXPECT_FALSE(summary.has_shown_text);

    TrainedModel trained(
        folder_ / "run", 0, 1, std::nullopt, [](const std::string&) {}, families_);
    EXPECT_EQ(trained.spec()->computation_json(), inputs.model->computation_json());
    EXPECT_LT(evaluate(trained.model(), trained.weights(), *inputs.train, 1).loss, *summary.loss_before);
    EXPECT_THAT([&] { (void)trained.generator(); },
                ThrowsMessage<Error>(HasSubstr("no text can come from a model of the family \"bigram\"")));
}

TEST_F(ModelFamilyTest, WithoutTheLineItsConfigIsRefused) {
    EXPECT_THAT([&] { (void)open_inputs(settings()); },
                ThrowsMessage<Error>(HasSubstr("model_type is \"bigram\", but the known families are")));
}

}  // namespace
}  // namespace accrue::testing
