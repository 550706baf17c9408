// The program on a GPU that does not exist: whole runs keep the law, and what can go wrong with a GPU ends with a sentence that
// says what to do.
#include "tests/support.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/kernels/cuda/plan.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// How the program is started: properties of the GPU (runtime.h), and other variables as "NAME=value".
struct Machine {
    std::string gpu = "architecture=86";
    std::vector<std::string> variables = {};
};

class GpuProgramTest : public ::testing::Test {
protected:
    GpuProgramTest() { write_ragged_data(folder_ / "data.safetensors", {}); }

    [[nodiscard]] static ProgramResult start(const Machine& machine, const std::vector<std::string>& arguments) {
        std::vector<std::string> all = {"-u", "ACCRUE_TEST_DEVICE", "ACCRUE_SIMULATED_GPU=" + machine.gpu};
        all.insert(all.end(), machine.variables.begin(), machine.variables.end());
        all.emplace_back(ACCRUE_SIMULATED_PROGRAM);
        all.insert(all.end(), arguments.begin(), arguments.end());
        return run_program_at("/usr/bin/env", all);
    }

    // Three steps of a window in four grains, with a checkpoint after each.
    [[nodiscard]] ProgramResult train(const std::string& run, const Machine& machine,
                                      const std::vector<std::string>& more = {}) const {
        std::vector<std::string> arguments = {"train"};
        for (const std::string& setting :
             {"model.from=" + golden("llama").string(), "data.train=" + (folder_ / "data.safetensors").string(),
              std::string("window.samples=7"), std::string("window.grain_samples=2"), std::string("schedule.steps=3"),
              std::string("schedule.warmup_steps=0"), std::string("compute.threads=1"),
              std::string("run.checkpoint_steps=1"), std::string("run.evaluate_steps=0"),
              "run.folder=" + (folder_ / run).string()}) {
            arguments.insert(arguments.end(), {"--set", setting});
        }
        for (const std::string& setting : more) {
            arguments.insert(arguments.end(), {"--set", setting});
        }
        return start(machine, arguments);
    }
    [[nodiscard]] ProgramResult resume(const std::string& run, const Machine& machine) const {
        return start(machine, {"train", "--resume", (folder_ / run).string()});
    }
    [[nodiscard]] std::string weights(const std::string& run) const {
        return sha256_of(folder_ / run / "model" / "model.safetensors");
    }
    [[nodiscard]] std::string written_device(const std::string& run) const {
        const std::string text = read_text(folder_ / run / "run.toml");
        const size_t begin = text.find("\ndevice = \"") + 11;
        return text.substr(begin, text.find('"', begin) - begin);
    }
    // How many of something the GPU says it did.
    [[nodiscard]] static int64_t count_of(const std::string& what, const std::string& output) {
        const size_t end = output.find(" " + what);
        const size_t begin = output.rfind(' ', end - 1);
        return end == std::string::npos ? -1 : std::stoll(output.substr(begin, end - begin));
    }
    // Its kernels are those of micro-batches, most of them.
    [[nodiscard]] ProgramResult train_by_grain(const std::string& run, const Machine& machine) const {
        return train(run, machine, {"window.micro_batch_grains=1"});
    }
    // The kernels of an undisturbed run, whose weights are those of `run`.
    [[nodiscard]] int64_t kernels_of_undisturbed(const std::string& run) const {
        const ProgramResult result = train_by_grain(run, {.gpu = "architecture=86,report=1"});
        EXPECT_EQ(result.exit_code, 0) << result.output;
        return count_of("kernels", result.output);
    }
    void expect_refused(const std::string& gpu, const std::vector<std::string>& settings,
                        const std::vector<std::string>& words) const {
        const ProgramResult result = train("refused", {.gpu = gpu}, settings);
        EXPECT_EQ(result.exit_code, 1) << result.output;
        for (const std::string& word : words) {
            EXPECT_THAT(result.output, HasSubstr(word));
        }
        EXPECT_FALSE(fs::exists(folder_ / "refused" / "metrics.jsonl"));
    }

    TemporaryFolder folder_;
};

// A way to compute the same window.
struct Way {
    std::string name;
    std::vector<std::string> settings;
    Machine machine = {};
};

TEST_F(GpuProgramTest, HoweverAWindowIsComputedTheWeightsAreTheSameFile) {
    const Way ways[] = {
        {"one grain at a time", {"window.micro_batch_grains=1"}},
        {"two", {"window.micro_batch_grains=2"}},
        {"all", {"window.micro_batch_grains=4"}},
        {"cheap recomputation", {"compute.recompute=cheap"}},
        {"blocks recomputed", {"window.micro_batch_grains=1", "compute.recompute=block"}},
        {"without graphs", {"window.micro_batch_grains=1"}, {.variables = {"ACCRUE_TEST_CUDA_GRAPHS=0"}}},
        {"one by one", {}, {.variables = {"ACCRUE_TEST_CUDA_WAIT=1"}}},
        {"threads in another order", {}, {.gpu = "architecture=86,order=5"}},
    };
    std::string expected;
    for (const Way& way : ways) {
        const ProgramResult result = train(way.name, way.machine, way.settings);
        ASSERT_EQ(result.exit_code, 0) << way.name << ": " << result.output;
        EXPECT_THAT(result.output, HasSubstr("device: cuda:0, simulated GPU"));
        expected = expected.empty() ? weights(way.name) : expected;
        EXPECT_EQ(weights(way.name), expected) << way.name;
    }
}

// By the library, whose algorithms are chosen by times, and these by chance.
TEST_F(GpuProgramTest, WhicheverAlgorithmsTheLibraryIsAskedForTheWeightsAreTheSameFile) {
    ASSERT_EQ(train("a", {.gpu = "architecture=90"}).exit_code, 0);
    ASSERT_EQ(train("b", {.gpu = "architecture=90,order=3"}, {"window.micro_batch_grains=1"}).exit_code, 0);
    EXPECT_EQ(weights("a"), weights("b"));
}

// A vocabulary that is large for so small a model makes plans differ by more than they are rounded to.
TEST_F(GpuProgramTest, TheSmallestPlanHasTheWeightsOfTheLargest) {
    const auto train_with = [&](const std::string& run, const std::string& memory) {
        return train(run, {},
                     {"model.from=", "model.family=llama", "model.layers=1", "model.width=32", "model.heads=2",
                      "model.vocabulary=8192", "schedule.steps=1", "compute.device=cuda", "compute.memory=" + memory});
    };
    const std::string refusal = train_with("refused", "1MiB").output;
    const std::string before = "the smallest plan needs ";
    ASSERT_THAT(refusal, HasSubstr(before));
    const size_t begin = refusal.find(before) + before.size();
    std::string smallest = refusal.substr(begin, refusal.find(" (", begin) - begin);
    std::erase(smallest, ' ');
    const ProgramResult most = train_with("most", "auto");
    const ProgramResult least = train_with("least", smallest);
    EXPECT_THAT(most.output, Not(HasSubstr("converted")));
    EXPECT_THAT(least.output, HasSubstr("weights converted per tile"));
    EXPECT_EQ(weights("most"), weights("least"));
}

// Sums of several kinds lie beside each other there, and gradients of one of them wait while another is read.
TEST_F(GpuProgramTest, VerifyFindsNothingThatDependsOnTheCut) {
    const ProgramResult result =
        start({.gpu = "architecture=90"},
              {"verify", "--set", "model.from=" + golden("llama").string(), "--set",
               "data.train=" + (folder_ / "data.safetensors").string(), "--set", "window.samples=7", "--set",
               "window.grain_samples=2", "--set", "compute.threads=1", "--set", "compute.device=cuda"});
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr("gradients of 2 grains added together"), HasSubstr("The law holds")));
}

TEST_F(GpuProgramTest, TapesThatComeAgainRunAsGraphs) {
    const std::vector<std::string> alike = {"window.micro_batch_grains=1", "data.layout=packed"};
    const auto graphs_with = [&](const std::string& run, const std::vector<std::string>& variables) {
        return count_of("graphs", train(run, {"architecture=86,report=1", variables}, alike).output);
    };
    EXPECT_GT(graphs_with("with", {}), 0);
    EXPECT_EQ(graphs_with("without", {"ACCRUE_TEST_CUDA_GRAPHS=0"}), 0);
}

TEST_F(GpuProgramTest, AfterAKillARunGoesOnWithTheSameBits) {
    const int64_t kernels = kernels_of_undisturbed("whole");
    const ProgramResult killed =
        train_by_grain("killed", {.gpu = cat("architecture=86,killed_after=", kernels * 6 / 10)});
    EXPECT_EQ(killed.exit_code, 128 + 9) << killed.output;
    EXPECT_FALSE(fs::exists(folder_ / "killed" / "model"));
    const ProgramResult resumed = resume("killed", {});
    EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
    EXPECT_THAT(resumed.output, HasSubstr("continued from step 1"));
    EXPECT_EQ(weights("killed"), weights("whole"));
}

TEST_F(GpuProgramTest, ACardThatIsLostStopsTheRunWhoseLastCheckpointIsWhole) {
    const int64_t kernels = kernels_of_undisturbed("whole");
    const ProgramResult lost = train_by_grain("lost", {.gpu = cat("architecture=86,lost_after=", kernels * 9 / 10)});
    EXPECT_EQ(lost.exit_code, 1) << lost.output;
    EXPECT_THAT(lost.output,
                AllOf(HasSubstr("the GPU failed while "), HasSubstr("cudaErrorECCUncorrectable"),
                      HasSubstr("The last checkpoint is whole (step 2): go on with accrue train --resume " +
                                (folder_ / "lost").string() + "\n")));
    EXPECT_EQ(damage_of(checkpoint_path(folder_ / "lost" / "checkpoints", 2)), std::nullopt);
    const ProgramResult resumed = resume("lost", {});
    EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
    EXPECT_THAT(resumed.output, HasSubstr("continued from step 2"));
    EXPECT_EQ(weights("lost"), weights("whole"));
}

TEST_F(GpuProgramTest, AGpuThatCannotBeUsedIsRefusedWithWhatToDo) {
    const std::string named = "compute.device=cuda";
    expect_refused(
        "driver=0", {named},
        {"compute.device is \"cuda\"", "no NVIDIA driver was found", "install the driver", "--set compute.device=cpu"});
    expect_refused("driver=12020", {named},
                   {"the NVIDIA driver is too old: it knows CUDA 12.2", "install a newer driver"});
    expect_refused("count=0", {named}, {"the driver shows no GPU to this process", "CUDA_VISIBLE_DEVICES"});
    expect_refused("count=2", {"compute.device=cuda:3"},
                   {"compute.device is \"cuda:3\"", "sees 2 GPU(s): cuda:0 to cuda:1"});
    expect_refused("architecture=75", {named}, {"simulated GPU (sm_75) is too old", "sm_80", "compute.device=cpu"});
    expect_refused("architecture=86,has_code=0", {named},
                   {"has no code for simulated GPU (sm_86)", "ACCRUE_CUDA_ARCHITECTURES=86"});
}

TEST_F(GpuProgramTest, ACardWithoutRoomIsRefusedWithTheSmallestPlan) {
    // What CUDA takes when it begins (runtime.h) and later (memory_budget.cpp), what the device keeps for itself, and one huge
    // page, in which all else of so small a model has room.
    constexpr int64_t kMiB = int64_t{1} << 20;
    const std::string needed = format_bytes((520 + 48) * kMiB + cuda::kept_bytes() + 2 * kMiB);
    const std::string named = "compute.device=cuda";
    expect_refused("architecture=86,memory_mib=600", {named},
                   {"the GPU cuda has 600.00 MiB of its 600.00 MiB to give, but the smallest plan needs " + needed,
                    "the device's own " + format_bytes(cuda::kept_bytes()), "2 of 2 blocks recomputed",
                    "Give it that much, or take a smaller model"});
    expect_refused("architecture=86,others_mib=7600", {named},
                   {"has 592.00 MiB of its 8.00 GiB to give", "the smallest plan needs " + needed});
    expect_refused("architecture=86,taken_mib=7660", {named},
                   {"the GPU cuda:0 has 12.00 MiB of its memory free, but", "are needed", "nvidia-smi shows who",
                    "give a lower compute.memory"});
}

TEST_F(GpuProgramTest, WhereNoGpuServesAutoTakesTheProcessorAndSaysWhy) {
    const std::pair<const char*, const char*> reasons[] = {
        {"driver=12020", "the NVIDIA driver is too old"},
        {"architecture=75", "simulated GPU is not used: simulated GPU (sm_75) is too old"},
        {"architecture=86,memory_mib=600", "simulated GPU is not used: the GPU cuda has 600.00 MiB"},
    };
    for (const auto& [gpu, reason] : reasons) {
        const ProgramResult result = train(gpu, {.gpu = gpu});
        EXPECT_EQ(result.exit_code, 0) << result.output;
        EXPECT_THAT(result.output, AllOf(HasSubstr("device: cpu"), HasSubstr(reason)));
        EXPECT_EQ(written_device(gpu), "cpu");
    }
    const ProgramResult without = train("without", {.gpu = "driver=0"});
    EXPECT_THAT(without.output, AllOf(HasSubstr("device: cpu"), Not(HasSubstr("NVIDIA")))) << "nobody asked for one";
}

TEST_F(GpuProgramTest, WhatAutoMeantIsWrittenDownAndStays) {
    ASSERT_EQ(train("gpu", {.gpu = "architecture=86,count=2"}).exit_code, 0);
    EXPECT_EQ(written_device("gpu"), "cuda");
    const ProgramResult elsewhere = resume("gpu", {.gpu = "driver=0"});
    EXPECT_EQ(elsewhere.exit_code, 1) << elsewhere.output;
    EXPECT_THAT(elsewhere.output, HasSubstr("compute.device is \"cuda\", but no NVIDIA driver was found"));

    ASSERT_EQ(train("processor", {.gpu = "driver=0"}).exit_code, 0);
    fs::remove_all(folder_ / "processor" / "model");
    fs::remove_all(checkpoint_path(folder_ / "processor" / "checkpoints", 3));
    const ProgramResult resumed = resume("processor", {});
    EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
    EXPECT_THAT(resumed.output, AllOf(HasSubstr("device: cpu"), HasSubstr("continued from step 2")));
    EXPECT_EQ(written_device("processor"), "cpu");
}

}  // namespace
}  // namespace accrue::testing
