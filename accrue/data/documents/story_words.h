#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace accrue {

// The words that stories draw from. A '|' divides what belongs together; {slots} are filled by the teller.
using Words = std::string_view;

inline constexpr std::array<Words, 26> kGirls = {
    "Mia",  "Anna",  "Lily", "Rosa", "Clara", "Emma", "Nora",  "Ida",   "Ruby", "Zoe", "Hanna", "Lucy", "Maya",
    "Ella", "Greta", "Ivy",  "Amy",  "Leila", "Sara", "Tessa", "Wanda", "Olga", "Kim", "Paula", "Dora", "Yuki"};
inline constexpr std::array<Words, 26> kBoys = {
    "Tom",  "Ben",  "Leo", "Max",  "Sam",  "Oscar", "Finn", "Hugo", "Jack", "Noah",  "Peter", "Emil",  "Felix",
    "Ravi", "Otto", "Tim", "Adam", "Luis", "Karl",  "Nico", "Omar", "Paul", "Jonas", "Milo",  "Simon", "Theo"};
inline constexpr std::array<Words, 12> kAnimals = {"rabbit", "fox",     "bear", "mouse", "squirrel", "hedgehog",
                                                   "cat",    "raccoon", "mole", "otter", "lamb",     "puppy"};
inline constexpr std::array<Words, 14> kTraits = {"little",   "small",  "curious", "shy",        "clever",
                                                  "cheerful", "quiet",  "kind",    "young",      "friendly",
                                                  "lively",   "gentle", "dreamy",  "adventurous"};
inline constexpr std::array<Words, 12> kHomes = {"in a small house by the river",
                                                 "in a cottage at the edge of the forest",
                                                 "on a farm behind the hills",
                                                 "in a tall house near the sea",
                                                 "in a village at the foot of a mountain",
                                                 "next to an old mill",
                                                 "in a little town with narrow streets",
                                                 "on a small green island",
                                                 "at the end of a long road",
                                                 "in a valley full of flowers",
                                                 "above a bakery that smelled of bread",
                                                 "in a yellow house with a round door"};
inline constexpr std::array<Words, 14> kHobbies = {"to sing",
                                                   "to draw",
                                                   "to bake",
                                                   "to hear old stories",
                                                   "to watch the clouds",
                                                   "to collect stones",
                                                   "to count the stars",
                                                   "to dance",
                                                   "to dig in the garden",
                                                   "to listen to the birds",
                                                   "to tell riddles",
                                                   "to paint",
                                                   "to climb on rocks",
                                                   "to play outside"};
inline constexpr std::array<Words, 10> kWeather = {"sunny|The sky was blue, and the birds were singing.",
                                                   "rainy|The rain tapped softly on the roofs.",
                                                   "windy|The wind played with the leaves.",
                                                   "cold|There was frost on the windows.",
                                                   "warm|Bees hummed in the flowers.",
                                                   "foggy|A soft white fog lay over the fields.",
                                                   "snowy|White snow covered the ground.",
                                                   "bright|There was not a single cloud in the sky.",
                                                   "quiet|Nothing moved but a few sparrows.",
                                                   "gray|Heavy clouds hung over the roofs."};
inline constexpr std::array<Words, 6> kDays = {"one {weather} morning", "one {weather} afternoon",
                                               "one {weather} day",     "on a {weather} morning",
                                               "on a {weather} day",    "early one {weather} morning"};

inline constexpr std::array<Words, 26> kObjects = {
    "red kite",     "wooden boat",   "blue scarf",    "silver bell",      "little drum",    "paper lantern",
    "yellow hat",   "toy train",     "picture book",  "green ball",       "woolly blanket", "tin whistle",
    "old map",      "shiny coin",    "glass marble",  "straw basket",     "orange cap",     "music box",
    "cloth rabbit", "golden button", "small compass", "striped umbrella", "feather pen",    "purple ribbon",
    "painted top",  "leather bag"};

inline constexpr size_t kIndoorSpots = 5;
// The first of them are inside a house.
inline constexpr std::array<Words, 20> kSpots = {
    "under the bed",      "behind the door",        "in the kitchen",       "on the stairs",
    "on the window sill", "in the garden",          "near the well",        "under the old oak",
    "by the gate",        "behind the barn",        "under the bridge",     "in the tall grass",
    "next to the pond",   "beside the fence",       "under the apple tree", "behind the stone wall",
    "between the bushes", "at the top of the hill", "in the wheelbarrow",   "near the bakery"};

inline constexpr std::array<Words, 14> kGoals = {
    "the market", "the pond",   "the meadow",       "the beach",    "the orchard",    "the river",  "the park",
    "the bakery", "the forest", "the next village", "the old mill", "the green hill", "the harbor", "the library"};

inline constexpr std::array<Words, 16> kHelpers = {
    "crow", "robin",  "hare",    "old goose", "gray cat", "shaggy dog", "turtle", "brown pony",
    "goat", "badger", "sparrow", "wise owl",  "beaver",   "young deer", "hen",    "donkey"};

inline constexpr std::array<Words, 12> kFoods = {
    "a loaf of bread|bread", "a slice of cake|cake", "a basket of berries|basket", "a big red apple|apple",
    "a warm bun|bun",        "a ripe pear|pear",     "a piece of cheese|cheese",   "a bag of nuts|bag",
    "a jar of honey|jar",    "a bowl of rice|bowl",  "a pot of soup|pot",          "a plum pie|pie"};

inline constexpr std::array<Words, 6> kAdults = {"mother", "father", "grandmother", "grandfather", "aunt", "uncle"};

inline constexpr std::array<Words, 8> kSorrows = {"sad",          "worried", "upset",  "very small",
                                                  "ready to cry", "unhappy", "gloomy", "miserable"};

inline constexpr std::array<Words, 8> kJoys = {"happy",    "proud",       "glad",     "warm inside",
                                               "thankful", "full of joy", "cheerful", "as light as a feather"};

}  // namespace accrue
