#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "accrue/train/settings.h"
#include "accrue/train/settings_words.h"

namespace accrue {

// A setting that takes one of a few words, whatever its enum: an enum with words, or one that may be left open ("auto").
// Valid as long as the settings that it points into.
class WordPlace {
public:
    template <class Value>
    explicit WordPlace(Value& value) : value_(&value), table_(&kTable<Value>) {}

    [[nodiscard]] std::string_view word() const { return table_->word(value_); }
    // False, and nothing has changed, if there is no such word.
    [[nodiscard]] bool take(std::string_view word) const { return table_->take(value_, word); }
    // All there are, in the order of help.
    [[nodiscard]] std::vector<std::string> words() const { return table_->words(); }

private:
    struct Table {
        std::string_view (*word)(const void* value) = nullptr;
        bool (*take)(void* value, std::string_view word) = nullptr;
        std::vector<std::string> (*words)() = nullptr;
    };
    template <class Value>
    static const Table kTable;

    void* value_;
    const Table* table_;
};

// Where a setting's value lies; its type is the type that the setting takes.
using SettingPlace =
    std::variant<bool*, std::optional<bool>*, int64_t*, double*, std::string*, std::vector<std::string>*,
                 std::optional<ByteSize>*, std::optional<DeviceName>*, WordPlace>;

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
    // How a text is judged: by itself, as a path (relative to where it was given), as paths whose endings are judged, or
    // as a path or the word byte.
    enum class Text { plain, path, data_files, tokenizer };

    std::string_view section = {};
    std::string_view name = {};
    SettingPlace (*place)(Settings&) = nullptr;
    std::string_view meaning = {};
    Bounds bounds = {};
    std::vector<std::string> texts = {};  // those (or the endings of data files) that exist; empty = any
    Text text = Text::plain;
    bool is_secret = false;  // never written

    [[nodiscard]] std::string key() const;
    // "an integer", "a text in quotes"...
    [[nodiscard]] std::string type() const;
    // The texts that exist, or the words of an enum.
    [[nodiscard]] std::vector<std::string> words() const;
    // What the value may be: the words in quotes, or the bounds without the limit; "" = anything of the type.
    [[nodiscard]] std::string allowed() const;
    // The value as TOML.
    [[nodiscard]] std::string value_text(const Settings& settings) const;
};

// Every setting in the order of the file.
[[nodiscard]] std::vector<Setting> settings_table();
// A text as a TOML string with its quotes.
[[nodiscard]] std::string toml_string(std::string_view text);

// What settings_words.h says of an enum, and of one that may be left open.
template <class Value>
struct WordsOfPlace {
    static bool take(Value& value, std::string_view word) {
        const std::optional<Value> found = value_of_word<Value>(word);
        value = found.value_or(value);
        return found.has_value();
    }
    static std::vector<std::string> words() { return words_of<Value>(); }
};

template <class Value>
struct WordsOfPlace<std::optional<Value>> {
    static bool take(std::optional<Value>& value, std::string_view word) {
        const std::optional<Value> found = value_of_word<Value>(word);
        value = found || word == kAuto ? found : value;
        return found || word == kAuto;
    }
    static std::vector<std::string> words() {
        std::vector<std::string> words = words_of<Value>();
        words.emplace(words.begin(), kAuto);
        return words;
    }
};

template <class Value>
const WordPlace::Table WordPlace::kTable = {
    .word = [](const void* value) { return word_of(*static_cast<const Value*>(value)); },
    .take = [](void* value,
               std::string_view word) { return WordsOfPlace<Value>::take(*static_cast<Value*>(value), word); },
    .words = WordsOfPlace<Value>::words};

}  // namespace accrue
