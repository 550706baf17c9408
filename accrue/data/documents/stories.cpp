#include "accrue/data/documents/stories.h"

#include <array>

#include "accrue/data/documents/story_teller.h"
#include "accrue/data/documents/story_words.h"

namespace accrue {
namespace {

// A story longer than this has said enough.
constexpr size_t kRoomForAnEnding = 780;

struct Pronouns {
    Words he, him, his;
};
constexpr Pronouns kShe = {"she", "her", "her"};
constexpr Pronouns kHe = {"he", "him", "his"};

// Two people with different names, each a child or an animal, and the words that stand for them.
void keep_people(StoryTeller& teller) {
    const bool girls[] = {teller.draw(2) == 0, teller.draw(2) == 0};
    teller.keep({"hero_girl", "friend_girl"}, kGirls);
    teller.keep({"hero_boy", "friend_boy"}, kBoys);
    teller.keep({"hero_animal", "friend_animal"}, kAnimals);
    const Words people[] = {"hero", "friend"};
    for (size_t i = 0; i < 2; ++i) {
        const std::string name(people[i]);
        const std::string prefix = i == 0 ? "" : "friend_";
        const Pronouns& pronouns = girls[i] ? kShe : kHe;
        teller.set(name, "{" + name + (girls[i] ? "_girl}" : "_boy}"));
        teller.set(prefix + "he", pronouns.he);
        teller.set(prefix + "him", pronouns.him);
        teller.set(prefix + "his", pronouns.his);
        const bool animal = teller.draw(5) > 0;
        teller.set(name + "_kind", animal ? "{" + name + "_animal}" : girls[i] ? "girl" : "boy");
    }
}

void tell_opening(StoryTeller& teller) {
    teller.keep({"trait", "friend_trait"}, kTraits);
    teller.keep({"home"}, kHomes);
    teller.keep({"hobby", "hobby2"}, kHobbies);
    teller.keep_halves("weather", "weather_detail", kWeather);
    teller.keep({"one_day"}, kDays);
    teller.say({"Once upon a time, there was {a trait} {hero_kind} named {hero}. {He} lived {home}.",
                "{Hero} was {a trait} {hero_kind} who lived {home}.",
                "There once was {a trait} {hero_kind} called {hero}, who lived {home}.",
                "{Home}, there lived {a trait} {hero_kind} named {hero}.",
                "This is the story of {hero}, {a trait} {hero_kind} who lived {home}."});
    teller.say({"{He} loved {hobby} with {his} friend {friend}, {a friend_trait} {friend_kind}.",
                "{His} best friend was {a friend_trait} {friend_kind} named {friend}.",
                "{Hero} loved {hobby}, and {his} friend {friend} loved {hobby2}.",
                "Next door lived {friend}, {a friend_trait} {friend_kind}, and the two were good friends."});
}

void tell_ending(StoryTeller& teller) {
    teller.say({"That night, {hero} slept very well.", "When the moon rose, {hero} fell asleep with a smile.",
                "And if you ever meet {hero}, ask about that day.", "{Hero} and {friend} still talk about it today.",
                "Then it was time for supper, and everybody went home.",
                "The stars came out one by one, and all was well.",
                "It was a day that {hero} and {friend} never forgot.", "The end."});
}

}  // namespace

std::string story(uint64_t number) {
    StoryTeller teller(number);
    keep_people(teller);
    tell_opening(teller);
    tell_plot(teller);
    if (teller.text().size() < kRoomForAnEnding) {
        tell_ending(teller);
    }
    return teller.text() + "\n";
}

std::string stories(uint64_t first, int64_t bytes) {
    std::string text;
    for (uint64_t number = first; static_cast<int64_t>(text.size()) < bytes; ++number) {
        if (!text.empty()) {
            text += '\n';
        }
        text += story(number);
    }
    return text;
}

}  // namespace accrue
