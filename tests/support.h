#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "accrue/base/temporary_folder.h"
#include "accrue/train/engine.h"
#include "accrue/train/inputs.h"
#include "accrue/train/load_ahead.h"
#include "accrue/train/step.h"

namespace accrue::testing {

[[nodiscard]] std::filesystem::path golden(const std::string& name);
// The program accrue as it was built beside the tests.
[[nodiscard]] std::string accrue_program();

// Samples of different lengths with masked prompts, one of which counts nothing, as input_ids and labels.
struct RaggedData {
    int64_t samples = 30;
    int64_t tokens = 24;
    int64_t vocabulary = 101;
    uint64_t seed = 1;
};
void write_ragged_data(const std::filesystem::path& file, const RaggedData& data);

// A copy of a golden model whose config.json is edited, and whose weights may be.
void copy_model(const std::string& golden_name, const std::filesystem::path& to,
                const std::map<std::string, std::string>& config_values,
                const std::function<void(const std::string& tensor, std::vector<float>& values)>& edit = {});

// A tokenizer.json with a token per printable character and these marks: as many as the golden models have room for, if
// there are at most five.
[[nodiscard]] std::string tokenizer_of_letters(const std::vector<std::string>& marks);

// An engine in this process with all it stands on.
struct TestRun {
    TestRun(const Settings& settings, int threads, const ModelFamilies& families = known_families());

    // Steps until `steps` are done and returns the hash of the weights.
    std::string run(int64_t steps);
    std::optional<StepReport> step();
    // As one of several.
    std::optional<StepReport> step(const Workers& workers);
    [[nodiscard]] Window window() const;
    // The mean gradient of one parameter from the sums as they stand.
    [[nodiscard]] std::vector<double> mean_gradient(int64_t parameter) const;

    // The weights of one parameter as they stand.
    [[nodiscard]] std::vector<float> weights_of(const Parameter& parameter) const;

    RunInputs inputs;
    Pool pool;
    Arena arena;
    std::unique_ptr<Kernels> kernels;
    Engine engine;
    Loader loader;
    LoadAhead batches;
    StopFlag stop{false};
};

// Loads as a run's loader does, counts the loads and stops the run at one of them: that micro-batch is still computed, the
// next one is not.
class StoppingLoader final : public PassedBatches {
public:
    StoppingLoader(TestRun& run, int64_t last) : PassedBatches(run.loader), run_(run), last_(last) {}
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override;
    [[nodiscard]] int64_t loads() const { return loads_; }

private:
    TestRun& run_;
    int64_t last_;
    mutable int64_t loads_ = 0;
};

// Sets the flag when the first grains of an open window are loaded, so that the step stops before the next micro-batch.
class StopsInside final : public PassedBatches {
public:
    explicit StopsInside(TestRun& run) : PassedBatches(run.loader), run_(run) {}
    [[nodiscard]] TokenBatch load(const Window& window, std::span<const int64_t> grains) const override;

private:
    TestRun& run_;
};

// Where tests compute fp16, which the processor does not: on the GPU that the tests are for, else by the reference.
[[nodiscard]] DeviceName device_of_fp16();

// Settings for a golden-sized model on a data file.
[[nodiscard]] Settings small_settings(const std::filesystem::path& model, const std::filesystem::path& data);

// What a program did.
struct ProgramResult {
    int exit_code = -1;      // 128 + signal when killed
    std::string output;      // stdout and stderr together
    int64_t peak_bytes = 0;  // the most it held
};
// In a folder and, where one is named, in a control group.
[[nodiscard]] ProgramResult run_program(const std::vector<std::string>& arguments,
                                        const std::filesystem::path& folder = ".",
                                        const std::filesystem::path& control_group = {});

// How a program is started.
struct ProgramSetup {
    enum class Output { read, closed, full_disk };  // closed: a pipe that nobody reads; full_disk: /dev/full
    Output output = Output::read;
    std::vector<int> ignored_signals = {};
    int64_t largest_file = -1;  // bytes; -1 = no limit
};
// With another setup. Where standard output is not read, `output` is what was said on standard error.
[[nodiscard]] ProgramResult run_program(const std::vector<std::string>& arguments, const ProgramSetup& setup);

// The same for another program than accrue.
[[nodiscard]] ProgramResult run_program_at(const std::filesystem::path& program,
                                           const std::vector<std::string>& arguments);

// Starts the program and sends it a signal as soon as `ready()` says so.
[[nodiscard]] ProgramResult signal_program(const std::vector<std::string>& arguments, int signal,
                                           const std::function<bool()>& ready, const ProgramSetup& setup = {});

[[nodiscard]] std::string sha256_of(const std::filesystem::path& file);

// metrics.jsonl without what a cut, a machine or a clock may change: times, bytes and, where asked, the number of
// micro-batches.
enum class MicroBatches { compare, ignore };
[[nodiscard]] std::vector<std::string> comparable_metrics(const std::filesystem::path& file,
                                                          MicroBatches micro_batches);

}  // namespace accrue::testing
