#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accrue/train/settings.h"

namespace accrue {

// One run on disk: where each of its files lies.
struct RunFolder {
    std::filesystem::path root;

    [[nodiscard]] std::filesystem::path settings() const { return root / "run.toml"; }
    [[nodiscard]] std::filesystem::path metrics() const { return root / "metrics.jsonl"; }
    [[nodiscard]] std::filesystem::path report() const { return root / "report.html"; }
    [[nodiscard]] std::filesystem::path checkpoints() const { return root / "checkpoints"; }
    [[nodiscard]] std::filesystem::path model() const { return root / "model"; }
    // The newest checkpoint, damaged or not, if there is one. To read one, see newest_checkpoint.h.
    [[nodiscard]] std::optional<std::filesystem::path> newest_checkpoint() const;
};

// The folder for a new run: the one the settings name, or the next free runs/N. A folder that holds a checkpoint
// is refused with the command that continues it. Writes run.toml first.
[[nodiscard]] RunFolder create_run_folder(const Settings& settings);

// The folder of a run to be continued, and its settings with overrides on top. run.toml is renewed.
struct ResumedRun {
    RunFolder folder;
    Settings settings;
};
[[nodiscard]] ResumedRun open_run_folder(const std::filesystem::path& root, const std::vector<std::string>& overrides);

}  // namespace accrue
