// Memory is a promise: what is planned is what a process holds, no run exceeds it, and changing the plan changes no bit.

#include "accrue/base/memory.h"

#include <cstdlib>
#include <fstream>
#include <limits>

#include "tests/sanitized.h"
#include "tests/support.h"
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accrue/base/bytes.h"
#include "accrue/base/file.h"
#include "accrue/base/random.h"
#include "accrue/train/trainer.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

// How far the real peak may lie below the planned one. A GPU's driver takes memory for itself by rules of its own.
int64_t slack_of(int64_t planned) {
    return usual_device().kind == DeviceKind::cuda ? std::max(64 * kMiB, planned / 50) : 16 * kMiB;
}

// Token ids below 256, enough for some windows of the longest samples.
void write_ids(const fs::path& file) {
    std::string bytes;
    for (uint64_t i = 0; i < 40'000; ++i) {
        bytes += {static_cast<char>(mix(1, i) % 256), '\0'};
    }
    write_text(file, bytes);
}

class MemoryPromiseTest : public ::testing::Test {
protected:
    MemoryPromiseTest() { write_ids(folder_ / "ids.bin"); }

    // `command` on a small job, with settings on top.
    [[nodiscard]] std::vector<std::string> job(const std::string& command, const std::vector<std::string>& settings) {
        std::vector<std::string> arguments = {command};
        const std::vector<std::string> all = {"data.train=" + (folder_ / "ids.bin").string(),
                                              "run.folder=" + (folder_ / "run").string(),
                                              "run.evaluate_steps=0",
                                              "schedule.steps=2",
                                              "window.samples=2",
                                              "compute.threads=2"};
        for (const auto& list : {all, settings}) {
            for (const std::string& setting : list) {
                arguments.insert(arguments.end(), {"--set", setting});
            }
        }
        return arguments;
    }

    [[nodiscard]] nlohmann::json plan(const std::vector<std::string>& settings) {
        std::vector<std::string> arguments = job("plan", settings);
        arguments.insert(arguments.end(), {"--json", "--typical"});
        const ProgramResult result = run_program(arguments, folder_.path());
        EXPECT_EQ(result.exit_code, 0) << result.output;
        return nlohmann::json::parse(result.output);
    }

    // The most that the program ever held of the memory that its arena lies in, in bytes.
    [[nodiscard]] int64_t train_and_measure(const std::vector<std::string>& settings) {
        fs::remove_all(folder_ / "run");
        const ProgramResult result = run_program(job("train", settings), folder_.path());
        EXPECT_EQ(result.exit_code, 0) << result.output;
        return usual_device().kind == DeviceKind::cuda ? last_peak_in_metrics() : result.peak_bytes;
    }
    [[nodiscard]] int64_t last_peak_in_metrics() const {
        std::ifstream metrics(folder_ / "run" / "metrics.jsonl");
        int64_t peak = 0;
        for (std::string line; std::getline(metrics, line);) {
            peak = nlohmann::json::parse(line).at("peak_bytes");
        }
        return peak;
    }

    TemporaryFolder folder_;
};

// bench/memory_promise does the same for more lengths and larger models.
TEST_F(MemoryPromiseTest, ThePlannedPeakIsTheRealOneAndNeverBelowIt) {
    for (const char* dtype : {"fp32", "bf16"}) {
        for (const char* recompute : {"nothing", "cheap", "block"}) {
            const std::vector<std::string> settings = {
                cat("compute.dtype=", dtype), cat("compute.recompute=", recompute), "data.sequence_length=512"};
            const int64_t planned = plan(settings).at("planned_peak_bytes");
            const int64_t real = train_and_measure(settings);
            EXPECT_GE(planned, real) << dtype << ", " << recompute;
            EXPECT_LE(planned, real + slack_of(planned)) << dtype << ", " << recompute;
        }
    }
}

// Each thread takes some for itself, which must not add up to more than was planned.
TEST_F(MemoryPromiseTest, ManyThreadsStayWithinThePlanToo) {
    const std::vector<std::string> settings = {"compute.threads=256", "data.sequence_length=64"};
    const int64_t planned = plan(settings).at("planned_peak_bytes");
    const int64_t real = train_and_measure(settings);
    EXPECT_GE(planned, real);
    EXPECT_LE(planned, real + 16 * kMiB);
}

TEST_F(MemoryPromiseTest, ABenchmarkStaysWithinThePlanItPrints) {
    for (const char* threads : {"1", "2", "64"}) {
        const ProgramResult result = run_program(
            {"bench", "--child", "steps", "--model", "tiny", "--sequence", "256", "--steps", "1", "--threads", threads},
            folder_.path());
        ASSERT_EQ(result.exit_code, 0) << result.output;
        const auto measured = nlohmann::json::parse(result.output);
        const int64_t planned = measured.at("planned_peak_bytes");
        EXPECT_LE(measured.at("resident_peak_bytes"), planned) << threads << " threads";
        EXPECT_LE(planned, measured.at("resident_peak_bytes").get<int64_t>() + 16 * kMiB) << threads << " threads";
    }
}

TEST_F(MemoryPromiseTest, ARunStaysWithinItsMemoryAndKeepsItsBits) {
    std::vector<std::string> job_settings = {"data.sequence_length=512", "window.grain_samples=2"};
    if (usual_device().kind == DeviceKind::cuda) {  // where the smallest plan keeps room for CUDA beside what it saves
        job_settings = {"data.sequence_length=512", "window.grain_samples=8", "window.samples=32",
                        "window.micro_batch_grains=0"};
    }
    const int64_t free_peak = train_and_measure(job_settings);
    const std::string weights = sha256_of(folder_ / "run" / "model" / "model.safetensors").substr(0, 64);
    const nlohmann::json frontier = plan(job_settings).at("frontier");
    const int64_t smallest = frontier.back().at("planned_peak_bytes");
    ASSERT_LT(smallest, free_peak - 10 * kMiB);
    for (const int64_t memory : {(free_peak + smallest) / 2, smallest + kMiB}) {
        std::vector<std::string> settings = job_settings;
        settings.push_back(cat("compute.memory=\"", memory, "\""));
        EXPECT_LE(train_and_measure(settings), memory);
        EXPECT_EQ(sha256_of(folder_ / "run" / "model" / "model.safetensors").substr(0, 64), weights);
    }
}

// A plan that has no room for a copy of the weights, because activations take less than that.
TEST_F(MemoryPromiseTest, TheSmallestPlanCanBeMeasured) {
    const std::vector<std::string> small = {"data.sequence_length=16", "window.samples=1", "window.grain_samples=1"};
    const nlohmann::json least = plan(small).at("frontier").back();
    ASSERT_FALSE(least.at("weight_copy"));
    std::vector<std::string> arguments = job("plan", small);
    const int64_t memory = least.at("planned_peak_bytes").get<int64_t>() + kMiB;
    arguments.insert(arguments.end(), {"--memory", std::to_string(memory), "--measure", "--json"});
    const ProgramResult result = run_program(arguments, folder_.path());
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_GT(nlohmann::json::parse(result.output).at("chosen").at("measured_tokens_per_second"), 0);
    EXPECT_LE(result.peak_bytes, memory);
}

TEST_F(MemoryPromiseTest, TooLittleIsRefusedBeforeTheFirstStep) {
    const ProgramResult result = run_program(job("train", {"compute.memory=20MiB"}), folder_.path());
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.output, HasSubstr("compute.memory is 20.00 MiB, but the smallest plan needs "));
    EXPECT_FALSE(fs::exists(folder_ / "run" / "metrics.jsonl"));
    const ProgramResult planned = run_program(job("plan", {"compute.memory=20MiB"}), folder_.path());
    EXPECT_EQ(planned.exit_code, 1);
    EXPECT_THAT(planned.output, HasSubstr("chosen:     none. compute.memory is 20.00 MiB"));
}

// The size behind "needs" in a refusal.
int64_t needed_in(const std::string& refusal) {
    const std::string before = " needs ";
    const size_t start = refusal.find(before) + before.size();
    return parse_bytes(refusal.substr(start, refusal.find(" (", start) - start)).value();
}

TEST_F(MemoryPromiseTest, VerifyingStaysWithinTheMemoryOfTheJob) {
    const auto verify = [this](const std::string& memory) {
        return run_program(job("verify", {"data.sequence_length=512", "window.grain_samples=1", "compute.dtype=bf16",
                                          cat("compute.memory=\"", memory, "\"")}),
                           folder_.path());
    };
    const ProgramResult refused = verify("20MiB");
    EXPECT_EQ(refused.exit_code, 1);
    ASSERT_THAT(
        refused.output,
        HasSubstr("compute.memory is 20.00 MiB, but the smallest plan to compute a window in several ways needs "));
    const int64_t memory = needed_in(refused.output) + kMiB;
    const ProgramResult free = verify("auto");
    EXPECT_EQ(free.exit_code, 0) << free.output;
    ASSERT_GT(free.peak_bytes, memory + 5 * kMiB) << "the test needs room between them";
    const ProgramResult result = verify(std::to_string(memory));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr("The law holds"));
    EXPECT_LE(result.peak_bytes, memory);
}

// The program inherits the limit.
class Limited {
public:
    Limited(__rlimit_resource resource, int64_t bytes) : resource_(resource) {
        getrlimit(resource, &old_);
        const struct rlimit small = {.rlim_cur = static_cast<rlim_t>(bytes), .rlim_max = old_.rlim_max};
        setrlimit(resource, &small);
    }
    ~Limited() { setrlimit(resource_, &old_); }
    Limited(const Limited&) = delete;
    Limited& operator=(const Limited&) = delete;

private:
    __rlimit_resource resource_;
    struct rlimit old_ {};
};

TEST_F(MemoryPromiseTest, AnUlimitBelowTheSmallestPlanIsRefusedInWords) {
    if (kSanitized) {
        GTEST_SKIP() << "sanitizers map terabytes of addresses";
    }
    for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
        ProgramResult result;
        {
            const Limited limited(resource, 200 * kMiB);
            result = run_program(job("train", {"data.sequence_length=1024"}), folder_.path());
        }
        EXPECT_EQ(result.exit_code, 1) << result.output;
        EXPECT_THAT(result.output,
                    HasSubstr(resource == RLIMIT_AS ? "ulimit -v is 200.00 MiB" : "ulimit -d is 200.00"));
        EXPECT_THAT(result.output, HasSubstr("but the smallest plan needs"));
        EXPECT_FALSE(fs::exists(folder_ / "run" / "metrics.jsonl"));
    }
}

TEST_F(MemoryPromiseTest, AnUlimitThatLeavesRoomIsKept) {
    if (kSanitized) {
        GTEST_SKIP() << "sanitizers map terabytes of addresses";
    }
    const Limited limited(RLIMIT_AS, 1200 * kMiB);
    const ProgramResult result = run_program(job("train", {}), folder_.path());
    EXPECT_EQ(result.exit_code, 0) << result.output;
}

// A group of version 1 or 2 that this test may make, or nothing.
fs::path new_group(int64_t limit) {
    for (const auto& [parent, file] :
         {std::pair("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), std::pair("/sys/fs/cgroup", "memory.max")}) {
        const fs::path group = fs::path(parent) / cat("accrue-test-", getpid());
        std::error_code fault;
        if (!fs::exists(fs::path(parent) / "cgroup.procs") || !fs::create_directory(group, fault) || fault) {
            continue;
        }
        std::ofstream file_of_limit(group / file);
        if (file_of_limit << limit << std::flush) {
            return group;
        }
        fs::remove(group, fault);
    }
    return {};
}

TEST_F(MemoryPromiseTest, AControlGroupBelowTheSmallestPlanIsRefusedInWords) {
    const fs::path group = new_group(48 * kMiB);
    if (group.empty()) {
        GTEST_SKIP() << "no control group can be made here; the made-up ones of memory_test.cpp in base/ remain";
    }
    // The program joins the group before it starts.
    const ProgramResult result = run_program(job("train", {}), folder_.path(), group);
    std::error_code ignored;
    fs::remove(group, ignored);
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_THAT(result.output, HasSubstr("is limited to 48.00 MiB"));
    EXPECT_THAT(result.output, HasSubstr("but the smallest plan needs"));
}

// What a run did whose memory was lowered and raised in the middle.
struct ChangingRun {
    std::string weights;
    std::vector<int64_t> resident_bytes;  // before each window
    std::string said;
};

ChangingRun run_with(const Settings& settings, const MemorySource& source) {
    const RunInputs inputs = open_inputs(settings);
    fs::remove_all(settings.run.folder);
    RunClaim claim = RunClaim::of_new_run(inputs.settings, {}, Overwrite::no);
    const RunFolder folder = claim.folder();
    ChangingRun result;
    const fs::path log = fs::path(settings.run.folder) / "said";
    FILE* out = fopen(log.c_str(), "w");
    Progress progress(out, false, inputs.settings.schedule.steps);
    const StopFlag never{false};
    (void)train(inputs, claim, progress, never, {.memory = [&] {
                    result.resident_bytes.push_back(process_memory().resident_bytes);
                    return source();
                }});
    fclose(out);
    result.said = read_text(log);
    result.weights = sha256_of(folder.model() / "model.safetensors").substr(0, 64);
    return result;
}

TEST(ChangingMemoryTest, ARunThatShrinksAndGrowsKeepsItsBits) {
    TemporaryFolder folder;
    write_ids(folder / "ids.bin");
    Settings settings;
    settings.data.train = {(folder / "ids.bin").string()};
    settings.data.sequence_length = 256;
    settings.window.samples = 8;
    settings.window.grain_samples = 2;
    settings.schedule.steps = 8;
    settings.schedule.warmup_steps = 0;
    settings.run.evaluate_steps = 0;
    settings.run.folder = (folder / "run").string();
    const MemoryBound plenty{
        .bytes = int64_t{1} << 40, .reason = "plenty", .address_bytes = std::numeric_limits<int64_t>::max()};
    const ChangingRun steady = run_with(settings, [&] { return plenty; });
    EXPECT_EQ(steady.said.find("memory:"), std::string::npos) << steady.said;

    int64_t asked = 0;  // once before the run, then before each window
    const ChangingRun changing = run_with(settings, [&] {
        MemoryBound now = plenty;
        if (++asked >= 4 && asked < 6) {
            now.bytes = 1;
            now.reason = "somebody took it";
        }
        return now;
    });
    EXPECT_EQ(changing.weights, steady.weights);
    EXPECT_THAT(changing.said, HasSubstr("less memory: somebody took it: from here on"));
    EXPECT_THAT(changing.said, HasSubstr("more memory: from here on"));
    ASSERT_EQ(changing.resident_bytes.size(), 9U);
    EXPECT_LT(changing.resident_bytes[4], changing.resident_bytes[3] - 8 * kMiB) << "pages went back to the system";
    EXPECT_GT(changing.resident_bytes[8], changing.resident_bytes[5] + 8 * kMiB) << "and came again";
}

}  // namespace
}  // namespace accrue::testing
