#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/accumulate/window.h"
#include "accrue/base/bytes.h"
#include "accrue/data/documents/chat_format.h"
#include "accrue/data/samples/corpus.h"
#include "accrue/data/samples/dataset.h"
#include "accrue/kernels/device_kind.h"
#include "accrue/kernels/sum_view.h"
#include "accrue/model/choices.h"
#include "accrue/model/shape.h"
#include "accrue/optim/moments.h"
#include "accrue/optim/schedule.h"
#include "accrue/tensor/dtype.h"

namespace accrue {

// Tokens of a sample, and of a micro-batch: far above what any machine holds.
inline constexpr int64_t kMostTokensAtOnce = 16'777'216;

// What a run's weights are before its first step: random ones, or those of model.from.
enum class InitialWeights { fresh, loaded };

// The update rule.
enum class OptimizerKind { adamw, sgd };

// What of a run's state lies in the host's memory, where a GPU reads and writes it as its own. Weights are the GPU's.
enum class HostState {
    none,
    moments,
    sums,  // and moments
};

// Where the state of a run lies that several workers compute: each has the moments of some parts of the model, or of all of it.
enum class WorkersState { shared, everywhere };

// Every setting of a run, resolved. The names are the keys of run.toml; defaults are those of `accrue train` without a
// file. What may be left open is optional: nothing is "auto".
struct Settings {
    struct Model {
        std::string preset = "tiny";
        std::string from = {};
        std::optional<InitialWeights> weights = {};
        ModelShape shape = {};
        bool operator==(const Model&) const = default;
    } model;
    struct Data {
        std::vector<std::string> train;
        std::vector<std::string> validation;
        SampleOrder::Kind order = SampleOrder::Kind::shuffled;
        int64_t sequence_length = 256;
        std::string tokenizer;
        Layout layout = Layout::packed;
        bool reset_attention = false;
        double validation_fraction = 0;
        std::optional<ChatFormat> chat_format = {};
        bool skip_bad = false;
        bool operator==(const Data&) const = default;
    } data;
    struct Window {
        int64_t samples = 32;
        int64_t tokens = 0;
        WindowSize::Last last = WindowSize::Last::kept;
        int64_t grain_samples = 0;
        int64_t micro_batch_grains = 0;
        bool operator==(const Window&) const = default;
    } window;
    struct Optimizer {
        OptimizerKind name = OptimizerKind::adamw;
        double rate = 3e-4;
        int64_t rate_samples = 0;
        RateRule rate_rule = RateRule::sqrt;
        double beta1 = 0.9;
        double beta2 = 0.95;
        int64_t beta2_half_life_tokens = 0;
        double epsilon = 1e-8;
        double momentum = 0.9;
        bool nesterov = false;
        double weight_decay = 0.1;
        double clip_norm = 1.0;
        MomentFormat moments = MomentFormat::fp32;
        bool operator==(const Optimizer&) const = default;
    } optimizer;
    struct Schedule {
        accrue::Schedule::Kind kind = accrue::Schedule::Kind::cosine;
        int64_t steps = 200;
        int64_t warmup_steps = 20;
        double final_fraction = 0.1;
        double decay_fraction = 0.2;
        bool operator==(const Schedule&) const = default;
    } schedule;
    struct Compute {
        std::optional<DeviceName> device = {};
        DType dtype = DType::bf16;
        int64_t threads = 0;
        SumKind sums = SumKind::exact;
        std::optional<ByteSize> memory = {};
        std::optional<Recompute> recompute = {};
        HostState host_state = HostState::none;
        std::string instruction_set;  // the device's word; "" = the best it has
        int64_t loss_scale = 1024;
        int64_t loss_scale_steps = 2000;
        bool operator==(const Compute&) const = default;
    } compute;
    struct Workers {
        WorkersState state = WorkersState::shared;
        int64_t copies = 2;
        int64_t heartbeat_seconds = 10;
        bool mixed = false;
        std::string certificates;
        std::string token;  // a secret: to_toml leaves it out
        bool insecure_network = false;
        bool operator==(const Workers&) const = default;
    } workers;
    struct Run {
        std::string folder;
        int64_t seed = 1;
        int64_t checkpoint_steps = 50;
        int64_t keep_checkpoints = 3;
        int64_t evaluate_steps = 50;
        bool operator==(const Run&) const = default;
    } run;

    bool operator==(const Settings&) const = default;
};

// The settings of a TOML file ("" = none) with overrides "section.key=value" on top, each checked. An unknown key, a
// wrong type or a value outside its range is an error that names file, line and key, and for unknown keys the nearest
// known one; a key whose feature does not exist yet is refused, never ignored. Relative paths in a file are relative to
// that file.
[[nodiscard]] Settings read_settings(const std::filesystem::path& file, const std::vector<std::string>& overrides);
// The same of a text that is in no file; `name` is for errors.
[[nodiscard]] Settings settings_of_toml(const std::string& text, const std::string& name);
// How to_toml begins: what tells a run's run.toml from a file that a person wrote.
inline constexpr std::string_view kResolvedSettingsMark = "# Every setting of a run, as accrue train resolved it.\n";
// Every setting as TOML, in a fixed order: reading it back gives the same settings. Only secrets are left out.
[[nodiscard]] std::string to_toml(const Settings& settings);
// A model in a few words: its folder, or its preset or family and the sizes that were given.
[[nodiscard]] std::string name_of(const Settings::Model& model);
// One line per key with its default and meaning, for help.
[[nodiscard]] std::string describe_settings();

}  // namespace accrue
