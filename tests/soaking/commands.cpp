#include "tests/soaking/commands.h"

namespace accrue::soaking {
namespace {

namespace fs = std::filesystem;

void add_settings(std::vector<std::string>& arguments, const KeyValues& settings) {
    for (const auto& [key, value] : settings) {
        arguments.insert(arguments.end(), {"--set", key + "=" + value});
    }
}

}  // namespace

Command train_command(const fs::path& program, const fs::path& run, const Job& job, const KeyValues& changes) {
    KeyValues settings = changes;
    settings["run.folder"] = "\"" + run.string() + "\"";
    settings.insert(job.settings.begin(), job.settings.end());
    Command command{.program = program, .arguments = {"train"}};
    add_settings(command.arguments, settings);
    return command;
}

Command resume_command(const fs::path& program, const fs::path& run, const KeyValues& changes) {
    Command command{.program = program, .arguments = {"train", "--resume", run.string()}};
    add_settings(command.arguments, changes);
    return command;
}

std::string shell_text(const Command& command) {
    std::string text = command.program.string();
    for (const std::string& word : command.arguments) {
        text += word.find_first_of(" \"[]") == std::string::npos ? " " + word : " '" + word + "'";
    }
    return text;
}

}  // namespace accrue::soaking
