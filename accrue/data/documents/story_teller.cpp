#include "accrue/data/documents/story_teller.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "accrue/base/error.h"
#include "accrue/base/random.h"

namespace accrue {

size_t StoryTeller::draw(size_t count) {
    const auto even = static_cast<double>(uniform(mix(number_, draws_++)));
    return static_cast<size_t>(even * even * even * static_cast<double>(count));
}

void StoryTeller::keep(std::initializer_list<std::string_view> names, std::span<const std::string_view> words) {
    std::vector<std::string_view> left(words.begin(), words.end());
    for (const std::string_view name : names) {
        const size_t chosen = draw(left.size());
        set(name, left[chosen]);
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(chosen));
    }
}

void StoryTeller::keep_halves(std::string_view first, std::string_view second,
                              std::span<const std::string_view> words) {
    const std::string_view both = words[draw(words.size())];
    const size_t middle = both.find('|');
    set(first, both.substr(0, middle));
    set(second, both.substr(middle + 1));
}

void StoryTeller::say(std::initializer_list<std::string_view> sentences) {
    if (!text_.empty()) {
        text_ += ' ';
    }
    text_ += filled(sentences.begin()[draw(sentences.size())]);
}

std::string StoryTeller::word_for(std::string_view slot) const {
    const bool with_article = slot.starts_with("a ");
    std::string name(with_article ? slot.substr(2) : slot);
    const bool capital = std::isupper(static_cast<unsigned char>(name[0])) != 0;
    name[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(name[0])));
    const auto found = words_.find(name);
    if (found == words_.end()) {
        throw Error(cat("the story grammar has no word for {", slot, "}"));
    }
    // A kept word may have slots of its own.
    std::string word = filled(found->second);
    if (with_article) {
        const bool vowel = std::string_view("aeiou").find(word[0]) != std::string_view::npos;
        word.insert(0, vowel ? "an " : "a ");
    }
    if (capital) {
        word[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(word[0])));
    }
    return word;
}

std::string StoryTeller::filled(std::string_view sentence) const {
    std::string result;
    while (!sentence.empty()) {
        const size_t open = std::min(sentence.find('{'), sentence.size());
        result += sentence.substr(0, open);
        sentence.remove_prefix(open);
        if (!sentence.empty()) {
            const size_t close = sentence.find('}');
            result += word_for(sentence.substr(1, close - 1));
            sentence.remove_prefix(close + 1);
        }
    }
    return result;
}

}  // namespace accrue
