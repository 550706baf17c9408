// Training in fp16: the loss scale finds its size by windows that are skipped, alike for everybody, and goes on over a resume.

#include <algorithm>
#include <cmath>
#include <ostream>

#include "tests/support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/train/evaluate.h"
#include "accrue/train/state.h"
#include "accrue/train/trainer.h"

namespace accrue::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// What each window was: skipped for the scale, skipped for another reason, or good; then the scales and the weights.
struct Course {
    std::string windows;
    std::vector<int64_t> scales;
    std::string hash;

    bool operator==(const Course&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Course& course) {
    out << course.windows;
    for (const int64_t scale : course.scales) {
        out << " " << scale;
    }
    return out << " " << course.hash;
}

class LossScaleRunTest : public ::testing::Test {
protected:
    LossScaleRunTest() { write_ragged_data(folder_ / "data.safetensors", {}); }

    // A model one of whose tensors is so many times as large. The head's makes the gradients of all before it larger too.
    [[nodiscard]] Settings with_factor(const std::string& tensor, float factor) const {
        copy_model("llama", folder_ / "model", {}, [&](const std::string& name, std::vector<float>& values) {
            std::for_each(values.begin(), values.end(), [&](float& value) { value *= name == tensor ? factor : 1; });
        });
        Settings settings = small_settings(folder_ / "model", folder_ / "data.safetensors");
        settings.compute.device = device_of_fp16();
        settings.compute.dtype = DType::fp16;
        settings.optimizer.rate = 1e-3;
        return settings;
    }
    // Gradients that do not fit until the scale has fallen a few times.
    [[nodiscard]] Settings planted() const {
        Settings settings = with_factor("lm_head.weight", 10);
        settings.compute.loss_scale = LossScale::kLargest;
        return settings;
    }

    static Course course_of(TestRun& run, int64_t steps) {
        Course course;
        while (run.engine.state.step < steps) {
            const std::string before = run.engine.weights_hash();
            const int64_t updates = run.engine.optimizer->counters().updates;
            const auto report = run.step();
            course.windows += report->lowers_loss_scale ? 'o' : report->skipped ? 's' : '.';
            course.scales.push_back(report->loss_scale.value());
            EXPECT_EQ(run.engine.weights_hash() == before, report->skipped);
            EXPECT_EQ(run.engine.optimizer->counters().updates == updates, report->skipped);
        }
        course.hash = run.engine.weights_hash();
        return course;
    }

    TemporaryFolder folder_;
};

TEST_F(LossScaleRunTest, AWindowThatOverflowsIsSkippedAndHalvesTheScale) {
    TestRun run(planted(), 1);
    const Course course = course_of(run, 12);
    const auto overflows = course.windows.find('.');
    ASSERT_NE(overflows, std::string::npos) << course;
    ASSERT_GT(overflows, 3U) << "more than three in a row: " << course;
    for (size_t i = 1; i < course.scales.size(); ++i) {
        EXPECT_EQ(course.scales[i], course.windows[i - 1] == 'o' ? course.scales[i - 1] / 2 : course.scales[i - 1]);
    }
    EXPECT_EQ(course.windows.find('s'), std::string::npos) << course;
    EXPECT_EQ(run.engine.state.skipped_in_a_row, 0);
}

TEST_F(LossScaleRunTest, TheReportSaysWhatBecameOfTheScale) {
    TestRun run(planted(), 1);
    run.engine.state.skipped_in_a_row = 2;
    const auto report = run.step();
    EXPECT_THAT(report->skip_reason, AllOf(HasSubstr("has a gradient that is not finite, first in "),
                                           HasSubstr("; the loss scale falls from 32768 to 16384")));
    EXPECT_TRUE(report->loss) << "losses are not scaled";
    EXPECT_EQ(run.engine.state.loss_scale, (LossScale{.value = 16384, .good_windows = 0}));
    EXPECT_EQ(run.engine.state.skipped_in_a_row, 2) << "it is neither a bad window nor a good one";
}

TEST_F(LossScaleRunTest, CutsKeepTheBits) {
    Settings settings = planted();
    settings.compute.loss_scale_steps = 2;  // it rises into an overflow again and again
    TestRun one(settings, 1);
    const Course expected = course_of(one, 12);
    EXPECT_NE(expected.windows.find(".."), std::string::npos) << expected;
    EXPECT_NE(expected.windows.find("..o."), std::string::npos) << expected;
    for (const int64_t grains : {2, 100}) {
        settings.window.micro_batch_grains = grains;
        TestRun run(settings, 2);
        EXPECT_EQ(course_of(run, 12), expected) << grains << " grains in a micro-batch";
    }
}

TEST_F(LossScaleRunTest, GoodWindowsInARowDoubleTheScale) {
    Settings settings = with_factor("lm_head.weight", 1);
    settings.compute.loss_scale = 4;
    settings.compute.loss_scale_steps = 3;
    TestRun run(settings, 1);
    const Course course = course_of(run, 7);
    EXPECT_EQ(course.windows, ".......");
    EXPECT_EQ(course.scales, (std::vector<int64_t>{4, 4, 4, 8, 8, 8, 16}));
}

// Where nothing is lost at either end of the format, a power of two changes no digit.
TEST_F(LossScaleRunTest, TheGradientDoesNotDependOnTheScale) {
    const auto gradient_with = [&](int64_t scale) {
        Settings settings = with_factor("lm_head.weight", 1);
        settings.compute.loss_scale = scale;
        TestRun run(settings, 1);
        const auto report = run.step();
        EXPECT_FALSE(report->skipped);
        std::vector<double> all = {report->grad_norm.value(), report->loss.value(),
                                   run.engine.sum.ledger().largest().front()};
        for (int64_t p = 0; p < run.engine.model->parameters().count(); ++p) {
            const std::vector<double> some = run.mean_gradient(p);
            all.insert(all.end(), some.begin(), some.end());
        }
        return all;
    };
    const std::vector<double> small = gradient_with(1024);
    const std::vector<double> large = gradient_with(8192);
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < small.size(); ++i) {
        difference += (small[i] - large[i]) * (small[i] - large[i]);
        norm += small[i] * small[i];
    }
    EXPECT_LT(std::sqrt(difference / norm), 1e-4);  // what vanished below 6e-8 / 1024
}

TEST_F(LossScaleRunTest, OnlyFp16IsScaled) {
    for (const DType dtype : {DType::fp32, DType::bf16}) {
        Settings settings = with_factor("lm_head.weight", 1);
        settings.compute.dtype = dtype;
        settings.compute.loss_scale_steps = 1;
        TestRun run(settings, 1);
        const auto report = run.step();
        EXPECT_FALSE(report->loss_scale);
        EXPECT_EQ(run.engine.sum.loss_scale(), 1);
        EXPECT_EQ(run.engine.state.loss_scale, LossScale{});
        const TemporaryFolder disk;
        save_state(run.engine, definition_of(run.inputs, run.engine.model->parameters()), disk.path());
        const CheckpointReader saved(checkpoint_path(disk.path(), 1));
        EXPECT_FALSE(nlohmann::json::parse(saved.state_json()).contains("loss_scale"));
    }
}

TEST_F(LossScaleRunTest, ALossOfAWindowIsNotScaled) {
    const auto loss_with = [&](int64_t scale) {
        Settings settings = with_factor("lm_head.weight", 1);
        settings.compute.loss_scale = scale;
        TestRun run(settings, 1);
        const double evaluated = evaluate(*run.engine.model, run.engine.weights_to_read(), *run.inputs.train, 4).loss;
        return std::pair(evaluated, run.step()->loss.value());
    };
    EXPECT_EQ(loss_with(1), loss_with(4096));
}

// A new process for each half of a window; what a run begins with does not matter any more.
TEST_F(LossScaleRunTest, AResumedRunGoesOnWithTheSameScaleInsideAWindowToo) {
    constexpr int64_t kSteps = 9;
    Settings settings = planted();
    settings.compute.loss_scale_steps = 2;
    TestRun straight(settings, 1);
    const Course expected = course_of(straight, kSteps);
    auto run = std::make_unique<TestRun>(settings, 1);
    settings.compute.loss_scale = 1;
    std::vector<int64_t> scales;
    int64_t stops = 0;
    while (run->engine.state.step < kSteps) {
        run->stop = false;
        const bool is_open = run->engine.state.open.has_value();
        const auto report = is_open ? run->step() : run_step(run->engine, StopsInside(*run), run->window(), run->stop);
        if (report) {
            scales.push_back(report->loss_scale.value());
        }
        stops += report ? 0 : 1;
        const std::string definition = definition_of(run->inputs, run->engine.model->parameters());
        const TemporaryFolder disk;
        save_state(run->engine, definition, disk.path());
        const LossScale saved = run->engine.state.loss_scale;
        const auto checkpoint = checkpoint_path(disk.path(), run->engine.state.step);
        run = std::make_unique<TestRun>(settings, 1);
        load_state(run->engine, definition, checkpoint);
        EXPECT_EQ(run->engine.state.loss_scale, saved);
        if (run->engine.state.open) {
            EXPECT_EQ(run->engine.state.open->loss_scale, saved.value);
            EXPECT_EQ(run->engine.sum.loss_scale(), saved.value);
        }
    }
    EXPECT_EQ(scales, expected.scales);
    EXPECT_EQ(run->engine.weights_hash(), expected.hash);
    EXPECT_EQ(run->engine.state.loss_scale, straight.engine.state.loss_scale);
    EXPECT_GE(stops, kSteps - 1);
}

TEST_F(LossScaleRunTest, AScaleThatCannotBeIsNotResumed) {
    TestRun run(with_factor("lm_head.weight", 1), 1);
    (void)run.step();
    run.engine.state.loss_scale.value = 48;
    const std::string definition = definition_of(run.inputs, run.engine.model->parameters());
    save_state(run.engine, definition, folder_ / "checkpoints");
    EXPECT_THAT(
        [&] { load_state(run.engine, definition, checkpoint_path(folder_ / "checkpoints", 1)); },
        ::testing::ThrowsMessage<Error>(HasSubstr("has the loss scale 48, which is no power of two from 1 to 32768")));
}

// A loss that is not finite is nothing that a scale could mend.
TEST_F(LossScaleRunTest, ALossThatIsNotFiniteLeavesTheScale) {
    TestRun run(with_factor("model.norm.weight", 3e5F), 1);  // what it puts out is no fp16 any more
    const auto report = run.step();
    EXPECT_TRUE(report->skipped);
    EXPECT_THAT(report->skip_reason, HasSubstr("; the loss is not finite either, so that no loss scale helps (it stays "
                                               "at 1024)"));
    EXPECT_EQ(run.engine.state.loss_scale.value, 1024);
    EXPECT_EQ(run.engine.state.skipped_in_a_row, 1);
}

// Too large for fp16 whatever the scale: from the smallest on, windows count as bad, and the third one ends the run.
TEST_F(LossScaleRunTest, AtTheSmallestScaleThreeBadWindowsStopTheRun) {
    Settings settings = with_factor("lm_head.weight", 3e4F);
    settings.compute.loss_scale = 2;
    settings.compute.threads = 1;
    settings.run.folder = (folder_ / "run").string();
    const RunInputs inputs = open_inputs(settings);
    RunClaim claim = RunClaim::of_new_run(inputs.settings, {}, Overwrite::no);
    std::FILE* nowhere = std::fopen("/dev/null", "w");
    Progress progress(nowhere, false, settings.schedule.steps);
    const StopFlag never{false};
    EXPECT_THAT([&] { (void)train(inputs, claim, progress, never); },
                ::testing::ThrowsMessage<Error>(
                    AllOf(HasSubstr("three windows in a row were skipped"), HasSubstr("last: step 4, grain "),
                          HasSubstr("; the loss scale cannot fall below 1"), HasSubstr("compute.dtype = \"bf16\""))));
    std::fclose(nowhere);
    std::vector<int64_t> scales;
    for (const std::string& line : comparable_metrics(folder_ / "run" / "metrics.jsonl", MicroBatches::compare)) {
        const auto json = nlohmann::json::parse(line);
        EXPECT_TRUE(json.at("skipped"));
        EXPECT_FALSE(json.at("loss").is_null());
        scales.push_back(json.at("loss_scale"));
    }
    EXPECT_EQ(scales, (std::vector<int64_t>{2, 1, 1, 1}));
}

}  // namespace
}  // namespace accrue::testing
