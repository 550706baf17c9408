#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/checkpoint/checkpoint.h"
#include "accrue/checkpoint/manifest.h"
#include "accrue/cli/commands.h"
#include "accrue/cli/inspect_files.h"
#include "accrue/cli/tensor_table.h"
#include "accrue/data/tokenizers/tokenizer.h"
#include "accrue/model/families.h"
#include "accrue/observe/run_figures.h"
#include "accrue/train/run_folder.h"
#include "accrue/train/settings.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/state.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const fs::path& folder, const std::string& ending) {
    std::set<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.path().extension() == ending) {
            files.insert(entry.path());
        }
    }
    return {files.begin(), files.end()};
}

// A model that cannot be trained here can still be looked at.
std::string config_text(const fs::path& folder) {
    if (!fs::exists(folder / "config.json")) {
        return "";
    }
    std::string text;
    const auto add = [&text](const std::string& name, const std::string& value) {
        text += fmt::format("{:<13} {}\n", name + ":", value);
    };
    try {
        const auto model = known_families().read(folder, 0);
        for (const auto& [name, value] : model->description()) {
            add(name, value);
        }
        add("parameters", std::to_string(model->parameters().elements()));
    } catch (const Error& error) {
        add("config.json", error.what());
    }
    return text;
}

std::string model_folder_text(const fs::path& folder) {
    std::string text = fmt::format("{}: a model folder\n{}", folder.string(), config_text(folder));
    for (const fs::path& file : files_in(folder, ".safetensors")) {
        text += fmt::format("\n{}\n{}", file.filename().string(), tensor_table(lines_of_safetensors(file)));
    }
    if (const auto tokenizer = tokenizer_file_in(folder)) {
        text += cat("\n", tokenizer_text(*tokenizer));
    }
    return text;
}

// Whose bits a run has, and where it went on with others.
std::string numerics_text(const std::optional<NumericsRecord>& record) {
    if (!record) {
        return "";
    }
    std::string text = fmt::format("bits of:      {}\n", text_of(record->now));
    for (const auto& [step, from, to] : record->changes) {
        text += fmt::format("              until step {}: {}\n", step, text_of(from));
    }
    for (const NumericsRecord::Guest& guest : record->guests) {
        text += fmt::format("              {}\n", text_of(guest));
    }
    return text;
}

// What the run computes on, as it was settled when it began.
std::string device_text(const Settings::Compute& compute) {
    const std::string device = compute.device ? text_of(*compute.device) : std::string(kAuto);
    return compute.instruction_set.empty() ? device : cat(device, ", at most ", compute.instruction_set);
}

std::string checkpoint_text(const fs::path& folder) {
    const CheckpointReader reader(folder);  // compares every checksum
    std::string text = fmt::format("{}: a checkpoint, whole, checksums right\n", folder.string());
    text += json_scalars_text(reader.state_json());
    text += numerics_text(numerics_of_checkpoint(folder));
    for (const fs::path& file : files_in(folder, ".safetensors")) {
        text += fmt::format("\n{}\n{}", file.filename().string(), tensor_table(lines_of_safetensors(file)));
    }
    return text;
}

std::string history_text(const std::filesystem::path& metrics) {
    RunFigures run;
    int64_t done = 0;
    (void)read_metrics(metrics, [&](const MetricsRow& row) {
        run.add(row);
        done = row.step;
    });
    if (run.rows == 0) {
        return "";
    }
    std::string text = fmt::format("done:         {}\ntokens:       {:.0f}\ntime:         {:.1f} s, {:.0f} tokens/s\n",
                                   done, run.tokens, run.seconds, run.tokens / run.seconds);
    if (run.loss.count > 0) {
        text += fmt::format("loss:         {:.4f} -> {:.4f}\n", run.loss.first, run.loss.last);
    }
    if (run.validation_loss.count > 0) {
        text += fmt::format("validation:   {:.4f}\n", run.validation_loss.last);
    }
    if (!std::isnan(run.peak_bytes)) {
        text += fmt::format("memory:       {} at most\n", format_bytes(static_cast<int64_t>(run.peak_bytes)));
    }
    if (const std::string workers = text_of(run.workers); !workers.empty()) {
        text += fmt::format("workers:      {}\n", workers);
    }
    if (run.skipped > 0) {
        text += fmt::format("skipped:      {:.0f} window(s)\n", run.skipped);
    }
    if (run.loss_scale.count > 0) {
        text += fmt::format("loss scale:   {:.0f}\n", run.loss_scale.last);
    }
    return text;
}

std::string run_folder_text(const fs::path& folder) {
    const Settings settings = read_settings(folder / "run.toml", {});
    const RunFolder run{folder};
    const auto& window = settings.window;
    std::string text = fmt::format(
        "{}: a run\nmodel:        {}\ndata:         {}\nwindow:       {}, grains of {}\nnumbers:      {}, sums {}, "
        "moments {}\ndevice:       {}\n"
        "steps:        {} planned\n",
        folder.string(), name_of(settings.model),
        settings.data.train.empty() ? "built-in stories" : fmt::format("{}", fmt::join(settings.data.train, ", ")),
        window.tokens > 0 ? fmt::format("{} tokens", window.tokens) : fmt::format("{} samples", window.samples),
        window.grain_samples, word_of(settings.compute.dtype), word_of(settings.compute.sums),
        word_of(settings.optimizer.moments), device_text(settings.compute), settings.schedule.steps);
    text += history_text(run.metrics());
    std::string steps;
    for (const CheckpointEntry& entry : survey_checkpoints(run.checkpoints())) {
        steps += fmt::format("{}step-{}{}", steps.empty() ? "" : ", ", entry.step,
                             entry.damage ? fmt::format(" (damaged: {})", *entry.damage) : "");
    }
    text += fmt::format("checkpoints:  {}\n", steps.empty() ? "none" : steps);
    if (const auto newest = run.newest_checkpoint()) {
        text += numerics_text(numerics_of_checkpoint(*newest));
    }
    if (fs::exists(run.model() / "config.json")) {
        return cat(text, "\n", model_folder_text(run.model()));
    }
    return text + fmt::format("It has no model yet. Look into a checkpoint: accrue inspect {}/checkpoints/step-N\n",
                              folder.string());
}

std::string folder_text(const fs::path& folder) {
    if (fs::exists(folder / "run.toml")) {
        return run_folder_text(folder);
    }
    if (fs::exists(folder / kManifestName)) {
        return checkpoint_text(folder);
    }
    if (fs::exists(folder / "config.json") || !files_in(folder, ".safetensors").empty()) {
        return model_folder_text(folder);
    }
    if (const auto tokenizer = tokenizer_file_in(folder)) {
        return tokenizer_text(*tokenizer);
    }
    throw Error(cat(folder.string(), " holds nothing that is known: no run.toml (a run), no ", kManifestName,
                    " (a checkpoint), no config.json and no .safetensors (a model), no tokenizer.json."));
}

}  // namespace

ExitCode run_inspect(const InspectCommand& command) {
    const fs::path path = command.path;
    if (!fs::exists(path)) {
        throw Error(cat(command.path, " does not exist."));
    }
    if (path.filename() == "config.json") {
        fmt::print("{}: a model's configuration\n{}", command.path, config_text(path.parent_path()));
        return ExitCode::done;
    }
    fmt::print("{}", fs::is_directory(path) ? folder_text(path) : file_text(path));
    return ExitCode::done;
}

}  // namespace accrue
