#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace accrue {

// Tells one story: draws its words, keeps them, and fills them into sentences. Each draw is a hash of the story's
// number and of how many came before it, so the same number tells the same story.
class StoryTeller {
public:
    explicit StoryTeller(uint64_t number) : number_(number) {}

    // A number in 0..count-1, small ones far more often: as in any text a few words are common and most are rare, so
    // that a small model soon knows the common ones and still meets new ones.
    [[nodiscard]] size_t draw(size_t count);
    // Keeps one of the words under each of the names; no word is taken twice in one call.
    void keep(std::initializer_list<std::string_view> names, std::span<const std::string_view> words);
    // Keeps the two halves of one of the words, which are divided by '|', under two names.
    void keep_halves(std::string_view first, std::string_view second, std::span<const std::string_view> words);
    // Keeps a word that needs no draw.
    void set(std::string_view name, std::string_view word) { words_[std::string(name)] = word; }

    // Adds one of the sentences to the story. {name} stands for the kept word, {a name} for the word with its article,
    // {Name} for the word with a capital letter.
    void say(std::initializer_list<std::string_view> sentences);

    [[nodiscard]] const std::string& text() const { return text_; }

private:
    [[nodiscard]] std::string word_for(std::string_view slot) const;
    [[nodiscard]] std::string filled(std::string_view sentence) const;

    uint64_t number_;
    uint64_t draws_ = 0;
    std::map<std::string, std::string, std::less<>> words_;
    std::string text_;
};

// Tells the middle of a story, one of a few plots, with the people and the day that the teller has kept.
void tell_plot(StoryTeller& teller);

}  // namespace accrue
