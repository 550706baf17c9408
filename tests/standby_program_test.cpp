// Several `accrue serve` of one run, which agree in etcd who leads.

#include <csignal>
#include <memory>
#include <optional>

#include "tests/running_program.h"
#include "tests/support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/dist/etcd_testing.h"

namespace accrue::testing {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

class StandbyProgramTest : public ::testing::Test {
protected:
    void SetUp() override {
        if (!has_etcd()) {
            GTEST_SKIP() << "there is no etcd (Debian: etcd-server)";
        }
        etcd_.emplace();
        write_ragged_data(folder_ / "data.safetensors", {});
    }

    [[nodiscard]] Words settings(const std::string& run, const Words& more = {}) const {
        Words words;
        Words all = {"model.from=" + golden("llama").string(),
                     "data.train=" + (folder_ / "data.safetensors").string(),
                     "window.samples=7",
                     "window.grain_samples=1",
                     "schedule.steps=400",
                     "run.checkpoint_steps=5",
                     "run.evaluate_steps=0",
                     "compute.device=cpu",
                     "workers.heartbeat_seconds=5",
                     "run.folder=" + (folder_ / run).string()};
        all.insert(all.end(), more.begin(), more.end());
        for (const std::string& setting : all) {
            words.insert(words.end(), {"--set", setting});
        }
        return words;
    }
    [[nodiscard]] std::unique_ptr<RunningProgram> serve(const Words& more = {}) const {
        Words words = {"serve", "--listen", "127.0.0.1:0", "--etcd", etcd_->url()};
        const Words of_run = settings("team", more);
        words.insert(words.end(), of_run.begin(), of_run.end());
        return std::make_unique<RunningProgram>(words);
    }
    [[nodiscard]] static std::unique_ptr<RunningProgram> work(const std::string& address) {
        return std::make_unique<RunningProgram>(Words{"work", "--join", address, "--threads", "1"});
    }
    [[nodiscard]] static std::string address_of(RunningProgram& serve) {
        EXPECT_TRUE(serve.says("accrue work --join ")) << serve.output();
        const std::string output = serve.output();
        const size_t first = output.find("--join ") + 7;
        return output.substr(first, output.find_first_of(" \n", first) - first);
    }
    [[nodiscard]] std::string weights(const std::string& run) const {
        return sha256_of(folder_ / run / "model" / "model.safetensors");
    }

    std::optional<EtcdProcess> etcd_;
    TemporaryFolder folder_;
};

TEST_F(StandbyProgramTest, AnotherTakesOverWhereTheFirstWasKilled) {
    const auto first = serve();
    const auto worker = work(address_of(*first));
    const auto second = serve();
    EXPECT_TRUE(second->says("standing by: ")) << second->output();
    EXPECT_TRUE(first->says("step 12/")) << first->output();
    first->send(SIGKILL);
    EXPECT_EQ(first->wait(), 128 + SIGKILL);
    const auto other = work(address_of(*second));
    EXPECT_EQ(second->wait(), 0) << second->output();
    EXPECT_THAT(second->output(), HasSubstr("leading the run now (term 2)"));
    EXPECT_EQ(other->wait(), 0) << other->output();
    worker->send(SIGKILL);  // it waits for the first one only
    EXPECT_EQ(run_program([&] {
                  Words words = settings("alone");
                  words.insert(words.begin(), "train");
                  return words;
              }())
                  .exit_code,
              0);
    EXPECT_EQ(weights("team"), weights("alone"));

    const auto late = serve();
    EXPECT_EQ(late->wait(), 0);
    EXPECT_THAT(late->output(), HasSubstr("The run has ended: all its 400 steps are done."));
}

// As after a long sleep: it does not know, and finds out before it writes.
TEST_F(StandbyProgramTest, WhoeverIsNotTheLeaderAnyMoreWritesNothing) {
    const auto first = serve();
    const auto worker = work(address_of(*first));
    EXPECT_TRUE(first->says("step 3/")) << first->output();
    etcd_->freeze();  // now nobody can say that it leads
    EXPECT_EQ(first->wait(), 1) << first->output();
    EXPECT_THAT(first->output(), HasSubstr("this program does not lead the run any more"));
    etcd_->thaw();
    worker->send(SIGKILL);
}

TEST_F(StandbyProgramTest, ARunOfTheSameNameWithOtherSettingsIsNamed) {
    const auto first = serve();
    (void)address_of(*first);
    const auto second = serve({"optimizer.rate=0.5"});
    EXPECT_EQ(second->wait(), 1);
    EXPECT_THAT(second->output(), HasSubstr("another run is led under the name "));
    EXPECT_THAT(second->output(), HasSubstr("rate = 0.5"));
    first->send(SIGKILL);
    (void)first->wait();
}

TEST_F(StandbyProgramTest, WhatCannotBeIsSaid) {
    const ProgramResult result = run_program(
        {"serve", "--listen", "127.0.0.1:0", "--etcd", etcd_->url(), "--resume", (folder_ / "team").string()});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.output, HasSubstr("leave --resume out"));
    EXPECT_THAT(run_program({"serve", "--listen", "127.0.0.1:0", "--etcd", "http://127.0.0.1:1"}).output,
                HasSubstr("--etcd needs run.folder"));
}

}  // namespace
}  // namespace accrue::testing
