#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accrue {

// A value of an enum and the word for it: in settings, on the command line, in reports.
//
// An enum that has words says them in one table, in the order in which help lists them, which is found by the enum's
// type:
//   constexpr auto words_for(Color) { return std::to_array<Word<Color>>({{"red", Color::red}, ...}); }
template <class Value>
struct Word {
    std::string_view text;
    Value value;
};

template <class Value>
[[nodiscard]] constexpr std::string_view word_of(Value value) {
    for (const Word<Value>& word : words_for(value)) {
        if (word.value == value) {
            return word.text;
        }
    }
    return {};
}

// The value of that word; nothing if no value has it.
template <class Value>
[[nodiscard]] constexpr std::optional<Value> value_of_word(std::string_view text) {
    for (const Word<Value>& word : words_for(Value())) {
        if (word.text == text) {
            return word.value;
        }
    }
    return std::nullopt;
}

// All words, in the order of the table.
template <class Value>
[[nodiscard]] std::vector<std::string> words_of() {
    std::vector<std::string> words;
    for (const Word<Value>& word : words_for(Value())) {
        words.emplace_back(word.text);
    }
    return words;
}

}  // namespace accrue
