#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace accrue {

// What somebody may have meant who gave words that the program does not know: "trian is not a command of accrue. Did you
// mean train?". Empty if there is nothing to say beyond the parser's own message.
[[nodiscard]] std::string hint_for_words(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace accrue
