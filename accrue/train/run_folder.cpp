#include "accrue/train/run_folder.h"

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/checkpoint/checkpoint.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

fs::path next_free_run() {
    for (int64_t number = 1;; ++number) {
        fs::path candidate = fs::path("runs") / std::to_string(number);
        if (!fs::exists(candidate)) {
            return candidate;
        }
    }
}

void make_folder(const fs::path& folder) {
    std::error_code failure;
    fs::create_directories(folder, failure);
    if (failure) {
        throw Error(cat("cannot make the run folder ", folder.string(), ": ", failure.message(),
                        ". Set run.folder to a place you may write to."));
    }
}

}  // namespace

std::optional<fs::path> RunFolder::newest_checkpoint() const {
    const auto found = survey_checkpoints(checkpoints());
    return found.empty() ? std::nullopt : std::optional(checkpoint_path(checkpoints(), found.back().step));
}

RunFolder create_run_folder(const Settings& settings) {
    RunFolder folder{settings.run.folder.empty() ? next_free_run() : fs::path(settings.run.folder)};
    if (folder.newest_checkpoint()) {
        throw Error(cat(folder.root.string(),
                        " already holds a run with a checkpoint. Continue it with: accrue train --resume ",
                        folder.root.string(), " , or choose another run.folder."));
    }
    make_folder(folder.root);
    Settings resolved = settings;
    resolved.run.folder = fs::absolute(folder.root).lexically_normal().string();
    write_text(folder.settings(), to_toml(resolved));
    fs::remove(folder.metrics());
    return folder;
}

ResumedRun open_run_folder(const fs::path& root, const std::vector<std::string>& overrides) {
    const RunFolder folder{root};
    if (!fs::exists(folder.settings())) {
        throw Error(
            cat(root.string(),
                " holds no run.toml, so there is no run to continue. Give the folder that accrue train printed."));
    }
    Settings settings = read_settings(folder.settings(), overrides);
    // The folder may have been moved since.
    settings.run.folder = fs::absolute(root).lexically_normal().string();
    write_text(folder.settings(), to_toml(settings));
    return {.folder = folder, .settings = settings};
}

}  // namespace accrue
