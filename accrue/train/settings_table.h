#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "accrue/train/settings.h"

namespace accrue {

// Where a setting's value lies; its type is the type that the setting takes.
using SettingPlace =
    std::variant<bool*, std::optional<bool>*, int64_t*, double*, std::string*, std::vector<std::string>*>;

// What a number may be. A bound that is not there does not bind.
struct Bounds {
    std::optional<double> at_least = {};
    std::optional<double> above = {};
    std::optional<double> at_most = {};
    std::optional<double> below = {};
    std::optional<double> limit = {};  // at most, but far above any real run: errors name it, help does not

    [[nodiscard]] bool hold(double value) const;
    // "at least 0 and below 1"; "" if nothing binds. All bounds, the limit too.
    [[nodiscard]] std::string text() const;
};

// One key of run.toml: all that reading, writing, help and errors know about it.
struct Setting {
    // How a text is judged: by itself, as a path (relative to where it was given), as paths whose endings are judged, as
    // a path or the word byte, or, beside the values, as a number of bytes.
    enum class Text { plain, path, data_files, tokenizer, size };

    std::string_view section = {};
    std::string_view name = {};
    SettingPlace (*place)(Settings&) = nullptr;
    std::string_view meaning = {};
    Bounds bounds = {};
    std::vector<std::string> values = {};           // the texts (or the endings of data files) that exist; empty = any
    bool (*planned)(const std::string&) = nullptr;  // is a text one that a later version will take?
    Text text = Text::plain;

    [[nodiscard]] std::string key() const;
    // "an integer", "a text in quotes"...
    [[nodiscard]] std::string type() const;
    // What the value may be: the values in quotes, or the bounds without the limit; "" = anything of the type.
    [[nodiscard]] std::string allowed() const;
    // The value as TOML.
    [[nodiscard]] std::string value_text(const Settings& settings) const;
};

// Every setting in the order of the file.
[[nodiscard]] std::vector<Setting> settings_table();
// A text as a TOML string with its quotes.
[[nodiscard]] std::string toml_string(std::string_view text);

}  // namespace accrue
