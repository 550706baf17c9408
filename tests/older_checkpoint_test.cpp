// Checkpoints of format version 1, which told only the units and the replays of an open window and kept its ledger in arrays.

#include "tests/support.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/train/state.h"

namespace accrue::testing {
namespace {

using Json = nlohmann::ordered_json;

// One tensor of a checkpoint with its bytes.
struct Owned {
    std::string name;
    std::string dtype;
    std::vector<int64_t> shape;
    std::vector<std::byte> bytes;

    [[nodiscard]] TensorToStore to_store() const { return {name, dtype, shape, bytes}; }
};

template <class T>
Owned array_of(const std::string& name, const std::string& dtype, const std::vector<int64_t>& shape,
               const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return {.name = name, .dtype = dtype, .shape = shape, .bytes = {bytes.begin(), bytes.end()}};
}

std::vector<Owned> tensors_of(const SafetensorsFile& file) {
    std::vector<Owned> tensors;
    for (const auto& [name, stored] : file.tensors()) {
        Owned& tensor =
            tensors.emplace_back(Owned{.name = name, .dtype = stored.dtype, .shape = stored.shape, .bytes = {}});
        tensor.bytes.resize(static_cast<size_t>(stored.bytes));
        file.read_bytes(stored, tensor.bytes);
    }
    return tensors;
}

// A ledger as version 1 wrote it.
std::vector<Owned> arrays_of(const GrainLedger& ledger) {
    std::vector<uint8_t> finished;
    std::vector<double> loss_sum;
    std::vector<int64_t> counted_tokens;
    std::vector<double> squares;
    std::vector<float> largest;
    std::vector<uint8_t> finite;
    for (int64_t grain = 0; grain < ledger.grains(); ++grain) {
        finished.push_back(ledger.grain(grain).finished ? 1 : 0);
        loss_sum.push_back(ledger.grain(grain).loss_sum);
        counted_tokens.push_back(ledger.grain(grain).counted_tokens);
        for (int64_t tensor = 0; tensor < ledger.tensors(); ++tensor) {
            squares.push_back(ledger.record(grain, tensor).squares);
            largest.push_back(ledger.record(grain, tensor).largest);
            finite.push_back(ledger.record(grain, tensor).not_finite ? 0 : 1);
        }
    }
    const std::vector<int64_t> one = {ledger.grains()};
    const std::vector<int64_t> each = {ledger.grains(), ledger.tensors()};
    return {array_of("finished", "U8", one, finished),
            array_of("loss_sum", "F64", one, loss_sum),
            array_of("counted_tokens", "I64", one, counted_tokens),
            array_of("squares", "F64", each, squares),
            array_of("largest", "F32", each, largest),
            array_of("finite", "U8", each, finite)};
}

// The state of version 1 for the one that was just saved.
Json state_of_version_1(const std::string& saved, const Engine& engine) {
    Json state = Json::parse(saved);
    state["version"] = 1;
    state.erase("window");
    const bool is_open = engine.state.open.has_value();
    state["window_open"] = is_open;
    state["window_units"] = is_open ? engine.sum.units().exponents() : std::vector<int32_t>();
    state["window_replays"] = is_open ? engine.state.open->replay : 0;
    return state;
}

// Saves a run as version 1 did, and returns the checkpoint.
std::filesystem::path save_as_version_1(TestRun& run, const std::filesystem::path& folder) {
    save_state(run.engine, definition_of(run.inputs, run.engine.model->parameters()), folder / "now");
    const CheckpointReader saved(checkpoint_path(folder / "now", run.engine.state.step));
    std::vector<std::pair<std::string, std::vector<Owned>>> files;
    for (const char* name : {"weights", "first_moment", "second_moment", "window"}) {
        if (saved.has(name)) {
            files.emplace_back(name, tensors_of(saved.file(name)));
        }
    }
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(saved.path()), {}), std::ssize(files) + 2)
        << "a file was not copied";
    std::vector<CheckpointFile> to_store;
    for (auto& [name, tensors] : files) {
        if (name == "window") {
            std::erase_if(tensors, [](const Owned& tensor) { return tensor.name != "sums"; });
            const std::vector<Owned> arrays = arrays_of(run.engine.sum.ledger());
            tensors.insert(tensors.begin(), arrays.begin(), arrays.end());
        }
        CheckpointFile& file = to_store.emplace_back(CheckpointFile{.name = name, .tensors = {}});
        for (const Owned& tensor : tensors) {
            file.tensors.push_back(tensor.to_store());
        }
    }
    write_checkpoint(folder / "then", run.engine.state.step, to_store,
                     state_of_version_1(saved.state_json(), run.engine).dump(2));
    return checkpoint_path(folder / "then", run.engine.state.step);
}

class OlderCheckpointTest : public ::testing::Test {
protected:
    OlderCheckpointTest() { write_ragged_data(folder_ / "data.safetensors", {}); }

    // Rate and beta2 of a window follow its tokens.
    [[nodiscard]] Settings settings() const {
        Settings settings = small_settings(golden("llama"), folder_ / "data.safetensors");
        settings.window.samples = 0;
        settings.window.tokens = 60;
        settings.optimizer.rate_samples = 4;
        settings.optimizer.beta2_half_life_tokens = 500;
        return settings;
    }
    [[nodiscard]] std::string resumed_from(const std::filesystem::path& checkpoint, int64_t steps) const {
        TestRun run(settings(), 2);
        load_state(run.engine, definition_of(run.inputs, run.engine.model->parameters()), checkpoint);
        return run.run(steps);
    }

    TemporaryFolder folder_;
};

constexpr int64_t kManySteps = 9;

TEST_F(OlderCheckpointTest, AnOpenWindowGoesOnWithTheSameBits) {
    const std::string expected = TestRun(settings(), 1).run(kManySteps);
    int64_t open_windows = 0;
    for (int64_t step = 0; step < kManySteps; ++step) {
        TestRun run(settings(), 1);
        (void)run.run(step);
        const auto report = run_step(run.engine, StoppingLoader(run, step == 0 ? 2 : 1), run.window(), run.stop);
        open_windows += report ? 0 : 1;
        EXPECT_EQ(resumed_from(save_as_version_1(run, folder_.path()), kManySteps), expected)
            << "stopped in step " << step;
    }
    EXPECT_GE(open_windows, kManySteps - 2) << "only a window of one grain has no inside";
}

TEST_F(OlderCheckpointTest, AWindowThatIsReplayedGoesOnWithItsUnits) {
    const auto begin = [](TestRun& run) {
        run.engine.state.units = Units(std::vector<int32_t>(run.engine.sum.tensors().size(), -90));
    };
    TestRun straight(settings(), 1);
    begin(straight);
    const std::string expected = straight.run(kManySteps);
    TestRun run(settings(), 1);
    begin(run);
    const int64_t first_replay = run.window().grains() + 1;
    ASSERT_FALSE(run_step(run.engine, StoppingLoader(run, first_replay), run.window(), run.stop));
    ASSERT_EQ(run.engine.state.open->replay, 1);
    EXPECT_EQ(resumed_from(save_as_version_1(run, folder_.path()), kManySteps), expected);
}

TEST_F(OlderCheckpointTest, AVersionThatIsNotKnownIsRefused) {
    TestRun run(settings(), 1);
    (void)run.run(1);
    const auto checkpoint = save_as_version_1(run, folder_.path());
    Json state = Json::parse(CheckpointReader(checkpoint).state_json());
    state["version"] = 3;
    write_checkpoint(folder_ / "later", 1, {}, state.dump());
    try {
        (void)resumed_from(folder_ / "later" / "step-1", kManySteps);
        FAIL() << "it was taken";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("has format version 3, this program reads versions 1 to 2."),
                  std::string::npos)
            << error.what();
    }
}

}  // namespace
}  // namespace accrue::testing
