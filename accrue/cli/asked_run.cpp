#include "accrue/cli/asked_run.h"

#include <filesystem>

#include "accrue/base/error.h"
#include "accrue/train/run_folder.h"

namespace accrue {

std::vector<std::string> overrides_of(const TrainCommand& command) {
    std::vector<std::string> overrides = command.overrides;
    if (!command.memory.empty()) {
        overrides.push_back("compute.memory=\"" + command.memory + "\"");
    }
    return overrides;
}

AskedRun asked_run(const TrainCommand& command) {
    if (command.resume.empty()) {
        Settings settings = read_settings(command.settings_file, overrides_of(command));
        std::string text = to_toml(settings);
        return {.settings = std::move(settings), .text = std::move(text)};
    }
    const RunFolder folder{command.resume};
    AskedRun asked{.settings = std::filesystem::exists(folder.settings())
                                   ? read_settings(folder.settings(), overrides_of(command))
                                   : Settings(),
                   .text = cat("--resume ", command.resume, "\n")};
    for (const std::string& setting : overrides_of(command)) {
        asked.text += cat("--set ", setting, "\n");
    }
    return asked;
}

}  // namespace accrue
