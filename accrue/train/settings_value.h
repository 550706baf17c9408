#pragma once

#include <filesystem>
#include <string>

#include <toml++/toml.h>

#include "accrue/train/settings_table.h"

namespace accrue {

// A file or one --set: how its errors begin and where its relative paths start.
struct SettingSource {
    enum class Kind { file, override };

    std::string name;
    std::filesystem::path folder;
    Kind kind = Kind::file;

    // "run.toml, line 3", or the --set as it was given.
    [[nodiscard]] std::string at(const toml::source_region& region) const;
};

// What stands there, for an error: "a text ("32")".
[[nodiscard]] std::string found_text(const toml::node& node);
// Puts a value into its place if it has the setting's type and is allowed; otherwise an error, and the place keeps what
// it had.
void take_value(const Setting& setting, const toml::node& node, const SettingSource& source, Settings& settings);
// The value behind the = of a --set, as a table with the one key "value". A bare word for a text, or for a list of
// texts, needs no quotes.
[[nodiscard]] toml::table parse_override(const Setting& setting, const std::string& text, const SettingSource& source);

}  // namespace accrue
