#include "accrue/cli/wrong_use.h"

#include <algorithm>

#include "accrue/base/error.h"
#include "accrue/train/nearest.h"

namespace accrue {
namespace {

std::vector<std::string> names_of_commands(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        names.push_back(command->get_name());
    }
    return names;
}

std::vector<std::string> names_of_options(const CLI::App& command) {
    std::vector<std::string> names;
    for (const CLI::Option* option : command.get_options()) {
        for (const std::string& name : option->get_lnames()) {
            names.push_back("--" + name);
        }
    }
    return names;
}

bool contains_word(const std::vector<std::string>& words, const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

// `of` is the command so far: "accrue", "accrue train".
std::string hint_for(const std::string& word, const char* what, const std::string& of,
                     const std::vector<std::string>& known) {
    const std::string near = nearest_text(word, known);
    return cat(word, " is not ", what, " of ", of, ". ", near.empty() ? "" : cat("Did you mean ", near, "? "), of,
               " --help lists them.");
}

}  // namespace

std::string hint_for_words(const CLI::App& app, const std::vector<std::string>& words) {
    const CLI::App* command = &app;
    std::string of = "accrue";
    for (const std::string& word : words) {
        if (word == "--") {
            return "";
        }
        const std::string name = word.substr(0, word.find('='));
        const auto commands = names_of_commands(*command);
        if (contains_word(commands, word)) {
            command = command->get_subcommand(word);
            of += " " + word;
        } else if (!word.starts_with('-') && !commands.empty()) {
            return hint_for(word, "a command", of, commands);
        } else if (word.starts_with("--") && !contains_word(names_of_options(*command), name)) {
            return hint_for(name, "an option", of, names_of_options(*command));
        }
    }
    return "";
}

}  // namespace accrue
