#include "accrue/train/settings_table.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "accrue/accumulate/loss_scale.h"
#include "accrue/model/families.h"

namespace accrue {
namespace {

// Far above any real run, so that products of counts cannot overflow.
constexpr double kMostThreads = 4096;
constexpr double kMostCount = 1e9;
constexpr double kMostSteps = 1e12;
constexpr double kMostTokens = 1e15;

// The keys of each section; the section's name is filled in by settings_table().
std::vector<Setting> model_settings() {
    std::vector<std::string> presets = known_families().preset_names();
    presets.emplace_back();
    return {
        {.name = "preset",
         .place = [](Settings& s) -> SettingPlace { return &s.model.preset; },
         .meaning = "a model of known shape with fresh weights; \"\" = that of model.from or model.family",
         .texts = std::move(presets)},
        {.name = "from",
         .place = [](Settings& s) -> SettingPlace { return &s.model.from; },
         .meaning = "or a folder in Hugging Face's layout: config.json and model.safetensors, or config.json alone",
         .text = Setting::Text::path},
        {.name = "weights",
         .place = [](Settings& s) -> SettingPlace { return WordPlace(s.model.weights); },
         .meaning =
             "what a run begins with: fresh weights, or those loaded from model.from; auto = loaded if it has any"},
    };
}

// What [model] says of a shape.
std::vector<Setting> shape_settings() {
    std::vector<std::string> families = known_families().shape_names();
    families.emplace_back();
    constexpr Bounds kSize = {.at_least = 0, .limit = kMostCount};
    return {
        {.name = "family",
         .place = [](Settings& s) -> SettingPlace { return &s.model.shape.family; },
         .meaning = "or a family, whose shape the next keys give; \"\" = that of the preset, whose shape they change",
         .texts = std::move(families)},
        {.name = "layers",
         .place = [](Settings& s) -> SettingPlace { return &s.model.shape.layers; },
         .meaning = "blocks of attention and MLP; 0 = the preset's",
         .bounds = kSize},
        {.name = "width",
         .place = [](Settings& s) -> SettingPlace { return &s.model.shape.width; },
         .meaning = "size of a token's vector, a multiple of heads; 0 = the preset's",
         .bounds = kSize},
        {.name = "heads",
         .place = [](Settings& s) -> SettingPlace { return &s.model.shape.heads; },
         .meaning = "attention heads of a layer; 0 = the preset's",
         .bounds = kSize},
        {.name = "key_heads",
         .place = [](Settings& s) -> SettingPlace { return &s.model.shape.key_heads; },
         .meaning = "heads of keys and values, a divisor of heads; 0 = as many as heads, or the preset's if heads is",
         .bounds = kSize},
        {.name = "ffn",
         .place = [](Settings& s) -> SettingPlace { return &s.model.shape.ffn; },
         .meaning = "inner width of the MLP; 0 = the preset's, or for another width 4 times it (gpt2) or 8/3 of it, "
                    "rounded up",
         .bounds = kSize},
        {.name = "positions",
         .place = [](Settings& s) -> SettingPlace { return &s.model.shape.positions; },
         .meaning = "the longest sequence the model takes; 0 = the preset's, or 1,024",
         .bounds = kSize},
        {.name = "vocabulary",
         .place = [](Settings& s) -> SettingPlace { return &s.model.shape.vocabulary; },
         .meaning = "rows of the embedding; 0 = the preset's, or enough for the tokenizer in a multiple of 64",
         .bounds = kSize},
        {.name = "tied",
         .place = [](Settings& s) -> SettingPlace { return &s.model.shape.tied; },
         .meaning =
             "the head shares the embedding's weights: true, false, or \"\" = as in the preset; alone, gpt2 does"},
        {.name = "dropout",
         .place = [](Settings& s) -> SettingPlace { return &s.model.shape.dropout; },
         .meaning = "the share of attention, for gpt2 also of embedding and residual, that training drops",
         .bounds = {.at_least = 0, .below = 1}},
    };
}

// Each also with .gz or .zst behind it; folders and patterns are looked into when the data is opened.
std::vector<std::string> data_endings() {
    return {".txt", ".jsonl", ".bin", ".safetensors"};
}

std::vector<Setting> data_settings() {
    return {
        {.name = "train",
         .place = [](Settings& s) -> SettingPlace { return &s.data.train; },
         .meaning = "files to train on; [] = built-in stories",
         .texts = data_endings(),
         .text = Setting::Text::data_files},
        {.name = "validation",
         .place = [](Settings& s) -> SettingPlace { return &s.data.validation; },
         .meaning = "files to evaluate on; [] = built-in stories if they are trained on, otherwise none",
         .texts = data_endings(),
         .text = Setting::Text::data_files},
        {.name = "order",
         .place = [](Settings& s) -> SettingPlace { return WordPlace(s.data.order); },
         .meaning = "the order of the samples in an epoch"},
        {.name = "sequence_length",
         .place = [](Settings& s) -> SettingPlace { return &s.data.sequence_length; },
         .meaning = "tokens in a sample",
         .bounds = {.at_least = 1, .limit = kMostTokensAtOnce}},
        {.name = "tokenizer",
         .place = [](Settings& s) -> SettingPlace { return &s.data.tokenizer; },
         .meaning = "a tokenizer's file or folder, or byte; \"\" = the one in model.from, or bytes for a preset",
         .text = Setting::Text::tokenizer},
        {.name = "layout",
         .place = [](Settings& s) -> SettingPlace { return WordPlace(s.data.layout); },
         .meaning = "packed = documents joined and cut into samples; padded = one document a sample"},
        {.name = "reset_attention",
         .place = [](Settings& s) -> SettingPlace { return &s.data.reset_attention; },
         .meaning = "packed: stop attention at document boundaries"},
        {.name = "validation_fraction",
         .place = [](Settings& s) -> SettingPlace { return &s.data.validation_fraction; },
         .meaning = "the share of documents kept for validation, chosen by their contents",
         .bounds = {.at_least = 0, .below = 1}},
        {.name = "chat_format",
         .place = [](Settings& s) -> SettingPlace { return WordPlace(s.data.chat_format); },
         .meaning =
             "how the messages of a .jsonl file become text; auto = as the model's own template says, else chatml"},
        {.name = "skip_bad",
         .place = [](Settings& s) -> SettingPlace { return &s.data.skip_bad; },
         .meaning = "count and skip damaged lines instead of stopping the run"},
    };
}

std::vector<Setting> window_settings() {
    return {
        {.name = "samples",
         .place = [](Settings& s) -> SettingPlace { return &s.window.samples; },
         .meaning = "samples of one optimizer step",
         .bounds = {.at_least = 0, .limit = kMostCount}},
        {.name = "tokens",
         .place = [](Settings& s) -> SettingPlace { return &s.window.tokens; },
         .meaning = "or counted tokens: the window closes at the first sample that reaches them; 0 = go by samples",
         .bounds = {.at_least = 0, .limit = kMostTokens}},
        {.name = "last",
         .place = [](Settings& s) -> SettingPlace { return WordPlace(s.window.last); },
         .meaning = "the last window of an epoch, if the samples do not fill it: taken as it is, or left out"},
        {.name = "grain_samples",
         .place = [](Settings& s) -> SettingPlace { return &s.window.grain_samples; },
         .meaning = "samples of a grain, part of the run's definition; 0 = about 1,024 tokens",
         .bounds = {.at_least = 0, .limit = kMostCount}},
        {.name = "micro_batch_grains",
         .place = [](Settings& s) -> SettingPlace { return &s.window.micro_batch_grains; },
         .meaning = "grains that pass through the layers together, free to change; 0 = planned",
         .bounds = {.at_least = 0, .limit = kMostCount}},
    };
}

std::vector<Setting> optimizer_settings() {
    return {
        {.name = "name",
         .place = [](Settings& s) -> SettingPlace { return WordPlace(s.optimizer.name); },
         .meaning = "the update rule"},
        {.name = "rate",
         .place = [](Settings& s) -> SettingPlace { return &s.optimizer.rate; },
         .meaning = "the highest learning rate of the schedule; the preset tiny has 0.0015",
         .bounds = {.at_least = 0}},
        {.name = "rate_samples",
         .place = [](Settings& s) -> SettingPlace { return &s.optimizer.rate_samples; },
         .meaning = "the window in samples that the rate was tuned for; 0 = take the rate as it is",
         .bounds = {.at_least = 0, .limit = kMostCount}},
        {.name = "rate_rule",
         .place = [](Settings& s) -> SettingPlace { return WordPlace(s.optimizer.rate_rule); },
         .meaning = "how the rate follows the window, with rate_samples; a short last window's too"},
        {.name = "beta1",
         .place = [](Settings& s) -> SettingPlace { return &s.optimizer.beta1; },
         .meaning = "adamw: decay of the first moment",
         .bounds = {.at_least = 0, .below = 1}},
        {.name = "beta2",
         .place = [](Settings& s) -> SettingPlace { return &s.optimizer.beta2; },
         .meaning = "adamw: decay of the second moment",
         .bounds = {.at_least = 0, .below = 1}},
        {.name = "beta2_half_life_tokens",
         .place = [](Settings& s) -> SettingPlace { return &s.optimizer.beta2_half_life_tokens; },
         .meaning = "beta2 from the window's tokens, so that its memory in tokens stays constant; 0 = off",
         .bounds = {.at_least = 0, .limit = kMostTokens}},
        {.name = "epsilon",
         .place = [](Settings& s) -> SettingPlace { return &s.optimizer.epsilon; },
         .meaning = "adamw: added to the denominator of the update",
         .bounds = {.above = 0}},
        {.name = "momentum",
         .place = [](Settings& s) -> SettingPlace { return &s.optimizer.momentum; },
         .meaning = "sgd: decay of the velocity",
         .bounds = {.at_least = 0, .below = 1}},
        {.name = "nesterov",
         .place = [](Settings& s) -> SettingPlace { return &s.optimizer.nesterov; },
         .meaning = "sgd: Nesterov momentum"},
        {.name = "weight_decay",
         .place = [](Settings& s) -> SettingPlace { return &s.optimizer.weight_decay; },
         .meaning = "on parameters with two or more dimensions",
         .bounds = {.at_least = 0}},
        {.name = "clip_norm",
         .place = [](Settings& s) -> SettingPlace { return &s.optimizer.clip_norm; },
         .meaning = "largest norm of a window's mean gradient, clipped after accumulation; 0 = off",
         .bounds = {.at_least = 0}},
        {.name = "moments",
         .place = [](Settings& s) -> SettingPlace { return WordPlace(s.optimizer.moments); },
         .meaning = "number format of the optimizer's state, part of the run's definition"},
    };
}

std::vector<Setting> schedule_settings() {
    return {
        {.name = "kind",
         .place = [](Settings& s) -> SettingPlace { return WordPlace(s.schedule.kind); },
         .meaning = "schedule of the rate after the warmup"},
        {.name = "steps",
         .place = [](Settings& s) -> SettingPlace { return &s.schedule.steps; },
         .meaning = "optimizer steps, like every count of steps here",
         .bounds = {.at_least = 1, .limit = kMostSteps}},
        {.name = "warmup_steps",
         .place = [](Settings& s) -> SettingPlace { return &s.schedule.warmup_steps; },
         .meaning = "steps in which the rate rises; not more than steps",
         .bounds = {.at_least = 0, .limit = kMostSteps}},
        {.name = "final_fraction",
         .place = [](Settings& s) -> SettingPlace { return &s.schedule.final_fraction; },
         .meaning = "the last rate, as a part of the highest",
         .bounds = {.at_least = 0, .at_most = 1}},
        {.name = "decay_fraction",
         .place = [](Settings& s) -> SettingPlace { return &s.schedule.decay_fraction; },
         .meaning = "wsd: the part of the steps in which the rate falls",
         .bounds = {.at_least = 0, .at_most = 1}},
    };
}

std::vector<Setting> compute_settings() {
    return {
        {.name = "device",
         .place = [](Settings& s) -> SettingPlace { return &s.compute.device; },
         .meaning =
             "where to compute; auto = a GPU that has room, else the processor; \"reference\" is slow and plain"},
        {.name = "dtype",
         .place = [](Settings& s) -> SettingPlace { return WordPlace(s.compute.dtype); },
         .meaning =
             "number format of activations and of the weights in products; fp16 on GPUs, and slowly on \"reference\""},
        {.name = "threads",
         .place = [](Settings& s) -> SettingPlace { return &s.compute.threads; },
         .meaning = "0 = all",
         .bounds = {.at_least = 0, .limit = kMostThreads}},
        {.name = "sums",
         .place = [](Settings& s) -> SettingPlace { return WordPlace(s.compute.sums); },
         .meaning = "how gradients are added up; \"exact\" depends on no order, the others keep that of the grains"},
        {.name = "memory",
         .place = [](Settings& s) -> SettingPlace { return &s.compute.memory; },
         .meaning = "the most memory this process may hold at any time; auto = what the machine can give"},
        {.name = "recompute",
         .place = [](Settings& s) -> SettingPlace { return WordPlace(s.compute.recompute); },
         .meaning = "what a block computes again instead of keeping it, free to change: less memory, more time"},
        {.name = "host_state",
         .place = [](Settings& s) -> SettingPlace { return WordPlace(s.compute.host_state); },
         .meaning =
             "GPU: what of the state lies in the host's memory, free to change; sums = sums and moments: less of "
             "the GPU's memory, more time"},
        {.name = "instruction_set",
         .place = [](Settings& s) -> SettingPlace { return &s.compute.instruction_set; },
         .meaning = "the widest vector instructions to use; \"\" = the best there is",
         .texts = {"", "avx2", "avx512", "avx512-bf16", "amx"}},
        {.name = "loss_scale",
         .place = [](Settings& s) -> SettingPlace { return &s.compute.loss_scale; },
         .meaning = "fp16: what gradients are multiplied by at first, a power of two; it then follows their size",
         .bounds = {.at_least = LossScale::kSmallest, .at_most = LossScale::kLargest}},
        {.name = "loss_scale_steps",
         .place = [](Settings& s) -> SettingPlace { return &s.compute.loss_scale_steps; },
         .meaning = "fp16: steps in a row without an overflow after which the loss scale doubles",
         .bounds = {.at_least = 1, .limit = kMostSteps}},
    };
}

std::vector<Setting> workers_settings() {
    return {
        {.name = "state",
         .place = [](Settings& s) -> SettingPlace { return WordPlace(s.workers.state); },
         .meaning = "several workers: whether they share the optimizer's state out, or each has all, free to change"},
        {.name = "copies",
         .place = [](Settings& s) -> SettingPlace { return &s.workers.copies; },
         .meaning =
             "shared: workers that have each part; what all of them had is lost with them, back to the checkpoint",
         .bounds = {.at_least = 1, .at_most = 64}},
        {.name = "heartbeat_seconds",
         .place = [](Settings& s) -> SettingPlace { return &s.workers.heartbeat_seconds; },
         .meaning = "a worker that is silent for so long counts as gone",
         .bounds = {.at_least = 1, .at_most = 3600}},
        {.name = "mixed",
         .place = [](Settings& s) -> SettingPlace { return &s.workers.mixed; },
         .meaning = "let workers join whose machines give other bits; then the weights depend on who computed what, "
                    "and travel "
                    "after each step"},
        {.name = "certificates",
         .place = [](Settings& s) -> SettingPlace { return &s.workers.certificates; },
         .meaning = "accrue serve: the folder that --make-certificates has made; \"\" = nothing is encrypted",
         .text = Setting::Text::path},
        {.name = "token",
         .place = [](Settings& s) -> SettingPlace { return &s.workers.token; },
         .meaning = "accrue serve: a secret that workers must know; never written anywhere; \"\" = what "
                    "ACCRUE_WORKER_TOKEN in the environment says",
         .is_secret = true},
        {.name = "insecure_network",
         .place = [](Settings& s) -> SettingPlace { return &s.workers.insecure_network; },
         .meaning = "accrue serve: without certificates, talk in clear to other machines"},
    };
}

std::vector<Setting> run_settings() {
    return {
        {.name = "folder",
         .place = [](Settings& s) -> SettingPlace { return &s.run.folder; },
         .meaning = "where the run is written; \"\" = runs/N, the next free number",
         .text = Setting::Text::path},
        {.name = "seed",
         .place = [](Settings& s) -> SettingPlace { return &s.run.seed; },
         .meaning = "of fresh weights, order and dropout",
         .bounds = {.at_least = 0}},
        {.name = "checkpoint_steps",
         .place = [](Settings& s) -> SettingPlace { return &s.run.checkpoint_steps; },
         .meaning = "a checkpoint every so many steps and at the end; 0 = only at the end",
         .bounds = {.at_least = 0, .limit = kMostSteps}},
        {.name = "keep_checkpoints",
         .place = [](Settings& s) -> SettingPlace { return &s.run.keep_checkpoints; },
         .meaning = "the newest so many stay; 0 = all",
         .bounds = {.at_least = 0, .limit = kMostCount}},
        {.name = "evaluate_steps",
         .place = [](Settings& s) -> SettingPlace { return &s.run.evaluate_steps; },
         .meaning = "the validation loss every so many steps and at the end; 0 = never",
         .bounds = {.at_least = 0, .limit = kMostSteps}},
    };
}

}  // namespace

std::vector<Setting> settings_table() {
    std::vector<Setting> table;
    const auto add = [&table](std::string_view section, std::vector<Setting> settings) {
        for (Setting& setting : settings) {
            setting.section = section;
            table.push_back(std::move(setting));
        }
    };
    add("model", model_settings());
    add("model", shape_settings());
    add("data", data_settings());
    add("window", window_settings());
    add("optimizer", optimizer_settings());
    add("schedule", schedule_settings());
    add("compute", compute_settings());
    add("workers", workers_settings());
    add("run", run_settings());
    return table;
}

}  // namespace accrue
