// A stop at moments that no signal hits reliably: inside a validation, before the first step, while a sample is written.

#include <atomic>
#include <cmath>

#include "tests/support.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/file.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/train/trainer.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;

// Sets a flag when its samples have been asked for so many times.
class StoppingDataset final : public Dataset {
public:
    StoppingDataset(std::unique_ptr<Dataset> data, StopFlag& stop, int64_t calls)
        : data_(std::move(data)), stop_(stop), calls_left_(calls) {}
    [[nodiscard]] int64_t size() const override { return data_->size(); }
    [[nodiscard]] Sample sample(int64_t index) const override {
        if (--calls_left_ == 0) {
            stop_ = true;
        }
        return data_->sample(index);
    }
    [[nodiscard]] int64_t weight(int64_t index) const override { return data_->weight(index); }
    [[nodiscard]] int64_t longest() const override { return data_->longest(); }
    [[nodiscard]] LargestToken largest_token() const override { return data_->largest_token(); }
    [[nodiscard]] std::string fingerprint() const override { return data_->fingerprint(); }

private:
    std::unique_ptr<Dataset> data_;
    StopFlag& stop_;
    mutable std::atomic<int64_t> calls_left_;
};

class StopTest : public ::testing::Test {
protected:
    StopTest() {
        write_ragged_data(folder_ / "data.safetensors", {});
        write_ragged_data(folder_ / "validation.safetensors", {.samples = 6, .seed = 9});
    }

    [[nodiscard]] Settings settings(const std::string& run) const {
        Settings settings = small_settings(golden("llama"), folder_ / "data.safetensors");
        settings.data.validation = {(folder_ / "validation.safetensors").string()};
        settings.compute.threads = 1;
        settings.schedule.steps = 4;
        settings.run.evaluate_steps = 2;
        settings.run.checkpoint_steps = 3;
        settings.run.folder = (folder_ / run).string();
        return settings;
    }
    // Trains on from what is in the folder. The stop comes with that call for a validation sample; 0 = never.
    TrainSummary train_in(const std::string& run, int64_t stop_at) const {
        StopFlag stop{stop_at < 0};
        RunInputs inputs = open_inputs(settings(run));
        inputs.validation = std::make_unique<StoppingDataset>(std::move(inputs.validation), stop, stop_at);
        RunClaim claim = fs::exists(folder_ / run) ? RunClaim::of_run(folder_ / run, Overwrite::no)
                                                   : RunClaim::of_new_run(inputs.settings, {}, Overwrite::no);
        std::FILE* nowhere = std::fopen("/dev/null", "w");
        Progress progress(nowhere, false, 4);
        const TrainSummary summary = train(inputs, claim, progress, stop);
        std::fclose(nowhere);
        return summary;
    }
    [[nodiscard]] std::vector<std::string> metrics(const std::string& run) const {
        return comparable_metrics(folder_ / run / "metrics.jsonl", MicroBatches::compare);
    }

    TemporaryFolder folder_;
};

// Six samples for each validation: before the first step, after steps 2 and 4.
TEST_F(StopTest, AStopInsideAValidationEndsItAndTheResumedRunRepeatsIt) {
    const TrainSummary whole = train_in("whole", 0);
    ASSERT_EQ(whole.end, TrainSummary::End::done);
    for (const int64_t call : {1, 10, 15}) {
        SCOPED_TRACE(call);
        const std::string run = cat("stopped-", call);
        const TrainSummary stopped = train_in(run, call);
        EXPECT_EQ(stopped.end, TrainSummary::End::stopped);
        EXPECT_EQ(stopped.step, (call - 1) / 6 * 2) << "not a step more than what was begun";
        EXPECT_FALSE(fs::exists(folder_ / run / "model"));
        const TrainSummary again = train_in(run, call == 10 ? 2 : 0);
        if (call == 10) {  // also where the repeated one is stopped
            EXPECT_EQ(again.end, TrainSummary::End::stopped);
            EXPECT_EQ(train_in(run, 0).end, TrainSummary::End::done);
        }
        EXPECT_EQ(metrics(run), metrics("whole"));
        EXPECT_EQ(sha256_of(folder_ / run / "model" / "model.safetensors").substr(0, 64),
                  sha256_of(folder_ / "whole" / "model" / "model.safetensors").substr(0, 64));
    }
}

TEST_F(StopTest, TheLossBeforeTheFirstStepOutlivesAResume) {
    const TrainSummary whole = train_in("whole", 0);
    ASSERT_TRUE(whole.validation_before);
    EXPECT_EQ(train_in("resumed", 10).end, TrainSummary::End::stopped);
    const TrainSummary resumed = train_in("resumed", 0);
    EXPECT_EQ(resumed.validation_before, whole.validation_before);
    EXPECT_NE(read_text(folder_ / "resumed" / "report.html").find("<title>step 0\nvalidation "), std::string::npos);
    const auto first = nlohmann::json::parse(metrics("resumed").front());
    EXPECT_EQ(first.at("validation_loss_before").get<double>(), *whole.validation_before);
}

TEST_F(StopTest, AStopBeforeTheFirstStepHasNothingToSave) {
    const TrainSummary stopped = train_in("run", -1);
    EXPECT_EQ(stopped.end, TrainSummary::End::stopped);
    EXPECT_EQ(stopped.step, 0);
    EXPECT_TRUE(list_checkpoints(folder_ / "run" / "checkpoints").empty());
    EXPECT_EQ(train_in("run", 0).end, TrainSummary::End::done);
}

// Its first text is asked for when all steps are done.
class StoppingTokenizer final : public Tokenizer {
public:
    explicit StoppingTokenizer(StopFlag& stop) : stop_(stop) {}
    [[nodiscard]] std::vector<int32_t> encode(std::string_view /*text*/, Special /*special*/) const override {
        return {1, 2, 3};
    }
    [[nodiscard]] std::vector<int32_t> encode_plain(std::string_view /*text*/) const override { return {}; }
    [[nodiscard]] std::vector<int32_t> encode_later_part(std::string_view /*text*/) const override { return {}; }
    [[nodiscard]] std::string decode(std::span<const int32_t> ids, Special /*special*/) const override {
        stop_ = true;
        return std::string(ids.size(), 'x');
    }
    [[nodiscard]] int64_t vocabulary() const override { return 101; }
    [[nodiscard]] std::optional<int32_t> end_of_document() const override { return std::nullopt; }
    [[nodiscard]] std::string token_text(int32_t /*id*/) const override { return "x"; }
    [[nodiscard]] std::string fingerprint() const override { return "x"; }

private:
    StopFlag& stop_;
};

TEST_F(StopTest, AStopWhileTheSampleIsWrittenEndsItAndTheRunIsDone) {
    StopFlag stop{false};
    RunInputs inputs = open_inputs(settings("run"));
    inputs.tokenizer = std::make_unique<StoppingTokenizer>(stop);
    RunClaim claim = RunClaim::of_new_run(inputs.settings, {}, Overwrite::no);
    std::FILE* screen = std::fopen((folder_ / "screen").c_str(), "w");
    Progress progress(screen, false, 4);
    const TrainSummary summary = train(inputs, claim, progress, stop);
    std::fclose(screen);
    EXPECT_TRUE(stop);
    EXPECT_EQ(summary.end, TrainSummary::End::done);
    const std::string said = read_text(folder_ / "screen");
    const std::string sample = said.substr(said.find("It writes:"));
    EXPECT_LE(std::count(sample.begin(), sample.end(), 'x'), 16 + 1) << "the prompt and one token of up to 300";
    EXPECT_TRUE(fs::exists(claim.folder().model() / "model.safetensors"));
    EXPECT_TRUE(fs::exists(claim.folder().report()));
}

}  // namespace
}  // namespace accrue::testing
