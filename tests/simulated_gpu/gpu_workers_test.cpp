// Workers on GPUs that do not exist: whoever has which GPU, and whichever way sums take, the weights are those of one process.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "tests/running_program.h"
#include "tests/support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/observe/metrics_rows.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Words = std::vector<std::string>;

constexpr const char* kByHost = "sums pass through the host";
constexpr const char* kByNccl = "sums go from GPU to GPU by NCCL";

class GpuWorkersTest : public ::testing::Test {
protected:
    GpuWorkersTest() {
        write_ragged_data(folder_ / "data.safetensors", {});
        // The program under test is the one on the simulated GPU, and so are the workers that it starts.
        fs::create_directories(folder_ / "programs");
        fs::create_symlink(ACCRUE_SIMULATED_PROGRAM, folder_ / "programs" / "accrue");
        setenv("ACCRUE_TEST_PROGRAMS", (folder_ / "programs").c_str(), 1);
        unsetenv("ACCRUE_TEST_DEVICE");
    }
    ~GpuWorkersTest() override {
        unsetenv("ACCRUE_TEST_PROGRAMS");
        unsetenv("ACCRUE_SIMULATED_GPU");
    }

    // The GPUs of programs that are started from now on (runtime.h).
    static void use(const std::string& gpus) { setenv("ACCRUE_SIMULATED_GPU", ("architecture=86," + gpus).c_str(), 1); }
    [[nodiscard]] Words of_run(const std::string& run, int64_t steps, const Words& settings = {}) const {
        Words all = {"model.from=" + golden("llama").string(),
                     "data.train=" + (folder_ / "data.safetensors").string(),
                     "window.samples=7",
                     "window.grain_samples=2",
                     cat("schedule.steps=", steps),
                     "schedule.kind=constant",
                     "schedule.warmup_steps=0",
                     "compute.threads=2",
                     "run.evaluate_steps=0",
                     "run.folder=" + (folder_ / run).string()};
        all.insert(all.end(), settings.begin(), settings.end());
        Words words;
        for (const std::string& setting : all) {
            words.insert(words.end(), {"--set", setting});
        }
        return words;
    }
    static Words joined(Words first, const Words& more) {
        first.insert(first.end(), more.begin(), more.end());
        return first;
    }
    // The output of a run that ends well.
    [[nodiscard]] std::string train(const std::string& run, int64_t steps, const Words& more = {},
                                    const Words& settings = {}) const {
        const ProgramResult result = run_program(joined(joined({"train"}, of_run(run, steps, settings)), more));
        EXPECT_EQ(result.exit_code, 0) << result.output;
        return result.output;
    }
    [[nodiscard]] std::string weights(const std::string& run) const {
        return sha256_of(folder_ / run / "model" / "model.safetensors");
    }
    [[nodiscard]] std::string written_device(const std::string& run) const {
        const std::string text = read_text(folder_ / run / "run.toml");
        const size_t begin = text.find("\ndevice = \"") + 11;
        return text.substr(begin, text.find('"', begin) - begin);
    }
    [[nodiscard]] int64_t steps_of(const std::string& run) const {
        int64_t steps = 0;
        (void)read_metrics(folder_ / run / "metrics.jsonl", [&](const MetricsRow&) { ++steps; });
        return steps;
    }
    // A process that computes for a run; 0 = none.
    [[nodiscard]] pid_t worker_of(const std::string& run) const {
        for (const auto& entry : fs::directory_iterator("/proc")) {
            const std::string name = entry.path().filename();
            std::ifstream file(entry.path() / "cmdline", std::ios::binary);
            std::string words;
            std::getline(file, words, '\n');  // nothing, where the process has just gone
            if (name.find_first_not_of("0123456789") == std::string::npos &&
                words.find(std::string("\0work\0--join", 12)) != std::string::npos &&
                words.find((folder_ / run).string() + '\0') != std::string::npos) {
                return std::stoi(name);
            }
        }
        return 0;
    }
    [[nodiscard]] std::string train_while_one_is_killed(const std::string& run, int64_t steps) const {
        bool is_killed = false;
        const auto kill_one = [&] {
            const pid_t worker = !is_killed && steps_of(run) >= 2 ? worker_of(run) : 0;
            is_killed = is_killed || (worker != 0 && kill(worker, SIGKILL) == 0);
            return false;
        };
        const ProgramResult result =
            signal_program(joined(joined({"train"}, of_run(run, steps)), {"--workers", "2"}), SIGCONT, kill_one);
        EXPECT_TRUE(is_killed);
        EXPECT_EQ(result.exit_code, 0) << result.output;
        return result.output;
    }
    [[nodiscard]] static std::unique_ptr<RunningProgram> start(const Words& words) {
        return std::make_unique<RunningProgram>(words);
    }
    static std::string address_of(RunningProgram& serve) {
        EXPECT_TRUE(serve.says("accrue work --join ")) << serve.output();
        const std::string output = serve.output();
        const size_t first = output.find("--join ") + 7;
        return output.substr(first, output.find_first_of(" \n", first) - first);
    }

    TemporaryFolder folder_;
};

TEST_F(GpuWorkersTest, HoweverManyShareGpusTheWeightsAreTheSameFile) {
    use("count=2");
    (void)train("alone", 3);
    EXPECT_THAT(train("one GPU", 3, {"--workers", "2"}, {"compute.device=cuda:1"}), HasSubstr(kByHost));
    EXPECT_EQ(weights("one GPU"), weights("alone"));
    EXPECT_EQ(written_device("one GPU"), "cuda:1");
    EXPECT_THAT(train("each its own", 3, {"--workers", "2"}), HasSubstr(kByNccl));
    EXPECT_EQ(weights("each its own"), weights("alone"));
    EXPECT_EQ(written_device("each its own"), "cuda") << "what auto meant";
    EXPECT_THAT(train("three", 3, {"--workers", "3"}), HasSubstr(kByHost)) << "two of them share one";
    EXPECT_EQ(weights("three"), weights("alone"));
}

TEST_F(GpuWorkersTest, AWorkerThatIsKilledIsReplacedWhicheverWaySumsTake) {
    use("count=1");
    constexpr int64_t kSteps = 40;  // long enough for another one to come before the end
    (void)train("alone", kSteps);
    for (const auto& [gpus, way] : {std::pair("count=1", kByHost), std::pair("count=2", kByNccl)}) {
        use(gpus);
        const std::string output = train_while_one_is_killed(gpus, kSteps);
        EXPECT_THAT(output, AllOf(HasSubstr(way), HasSubstr("worker 3 takes its place"), HasSubstr("worker 3 joined")));
        EXPECT_EQ(weights(gpus), weights("alone"));
    }
}

TEST_F(GpuWorkersTest, SumsThatAreDamagedBetweenGpusAreExchangedAgain) {
    use("count=2,nccl_damage=1");
    (void)train("alone", 3);
    EXPECT_THAT(train("damaged", 3, {"--workers", "2"}),
                AllOf(HasSubstr(kByNccl), HasSubstr("the sums are exchanged again, because worker ")));
    EXPECT_EQ(weights("damaged"), weights("alone"));
}

TEST_F(GpuWorkersTest, WhereNcclIsTooOldSumsPassThroughTheHost) {
    use("count=2,nccl=0");
    (void)train("alone", 2);
    EXPECT_THAT(train("old", 2, {"--workers", "2"}), HasSubstr(kByHost));
    EXPECT_EQ(weights("old"), weights("alone"));
}

// Checkpoints are read from a worker, and given to others.
TEST_F(GpuWorkersTest, ARunGoesOnWithAnotherNumberOfWorkersAndItsMomentsOnTheHost) {
    use("count=2");
    (void)train("alone", 4);
    (void)train("team", 2, {"--workers", "2"}, {"run.checkpoint_steps=1"});
    const ProgramResult resumed = run_program({"train", "--resume", (folder_ / "team").string(), "--workers", "3",
                                               "--set", "schedule.steps=4", "--set", "compute.host_state=moments"});
    EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
    EXPECT_EQ(weights("team"), weights("alone"));
}

// A card that has room for one of the job's processes and its leader, but not for two.
TEST_F(GpuWorkersTest, EachWorkerPlansWithinItsShareOfAGpu) {
    use("memory_mib=2300");
    EXPECT_THAT(train("two", 1, {"--workers", "2"}), HasSubstr(kByHost));
    EXPECT_EQ(written_device("two"), "cuda");
    EXPECT_THAT(train("three", 1, {"--workers", "3"}), Not(HasSubstr(kByHost)));
    EXPECT_EQ(written_device("three"), "cpu") << "auto looks for room for all";
    const ProgramResult named =
        run_program(joined(joined({"train"}, of_run("named", 1, {"compute.device=cuda"})), {"--workers", "3"}));
    EXPECT_EQ(named.exit_code, 1) << named.output;
    EXPECT_THAT(named.output, HasSubstr("the smallest plan needs"));
    EXPECT_FALSE(fs::exists(folder_ / "named" / "run.toml"));
}

TEST_F(GpuWorkersTest, WhoJoinsNeedsAGpuOfItsOwnMachine) {
    use("count=2");
    (void)train("alone", 3);
    const auto leader = start(joined({"serve", "--listen", "127.0.0.1:0", "--workers", "2"}, of_run("team", 3)));
    const std::string address = address_of(*leader);
    const ProgramResult other = run_program({"work", "--join", address, "--device", "cpu"});
    EXPECT_EQ(other.exit_code, 1) << other.output;
    EXPECT_THAT(other.output, AllOf(HasSubstr("the run computes on \"cuda\""), HasSubstr("asked for \"cpu\""),
                                    HasSubstr("workers.mixed")));
    const ProgramResult third = run_program({"work", "--join", address, "--device", "cuda:2"});
    EXPECT_EQ(third.exit_code, 1) << third.output;
    EXPECT_THAT(third.output, AllOf(HasSubstr("the run computes on GPUs, and here"), HasSubstr("sees 2 GPU(s)")));
    use("driver=0");
    const ProgramResult without = run_program({"work", "--join", address});
    EXPECT_EQ(without.exit_code, 1) << without.output;
    EXPECT_THAT(without.output, AllOf(HasSubstr("the run computes on GPUs, and here"), HasSubstr("no NVIDIA driver")));
    use("count=2");
    const auto first = start({"work", "--join", address, "--memory", "3GiB"});
    const auto second = start({"work", "--join", address, "--device", "cuda:1"});
    EXPECT_EQ(first->wait(), 0) << first->output();
    EXPECT_EQ(second->wait(), 0) << second->output();
    EXPECT_EQ(leader->wait(), 0) << leader->output();
    EXPECT_THAT(second->output(), HasSubstr(kByNccl));
    EXPECT_EQ(weights("team"), weights("alone"));
}

TEST_F(GpuWorkersTest, AMixedRunTakesWorkersWithoutAGpu) {
    use("count=1");
    const auto leader = start(
        joined({"serve", "--listen", "127.0.0.1:0", "--workers", "2"}, of_run("mixed", 3, {"workers.mixed=true"})));
    const std::string address = address_of(*leader);
    const auto first = start({"work", "--join", address});
    use("driver=0");
    const auto second = start({"work", "--join", address});
    EXPECT_EQ(leader->wait(), 0) << leader->output();
    EXPECT_EQ(first->wait(), 0) << first->output();
    EXPECT_EQ(second->wait(), 0) << second->output();
    EXPECT_THAT(second->output(), HasSubstr(kByHost));
    EXPECT_THAT(leader->output(), HasSubstr("mixed: since step"));
}

TEST_F(GpuWorkersTest, CommandsKnowOfWorkersOnGpus) {
    use("count=1");
    const ProgramResult verified = run_program(
        joined({"verify", "--workers", "2", "--windows", "2"}, of_run("verified", 3, {"compute.device=cuda"})));
    EXPECT_EQ(verified.exit_code, 0) << verified.output;
    EXPECT_THAT(verified.output, HasSubstr("The law holds"));
    const ProgramResult planned =
        run_program(joined({"plan", "--workers", "2", "--typical"}, of_run("planned", 3, {"compute.device=cuda"})));
    EXPECT_EQ(planned.exit_code, 0) << planned.output;
    EXPECT_THAT(planned.output, HasSubstr("each of 2 worker(s) on it"));
}

}  // namespace
}  // namespace accrue::testing
