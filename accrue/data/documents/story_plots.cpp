#include <array>
#include <span>

#include "accrue/data/documents/story_teller.h"
#include "accrue/data/documents/story_words.h"

namespace accrue {
namespace {

constexpr std::span<const Words> kOutdoors = std::span<const Words>(kSpots).subspan(kIndoorSpots);

void tell_lost(StoryTeller& teller) {
    teller.keep({"object"}, kObjects);
    teller.keep({"spot", "spot2", "spot3"}, kSpots);
    teller.keep({"helper"}, kHelpers);
    teller.say({"{One_day}, {hero} could not find {his} {object}.",
                "{One_day}, {hero} saw that {his} {object} was gone.",
                "{One_day}, {hero} lost {his} {object} while {he} was playing."});
    teller.say(
        {"{Weather_detail}", "It was the thing {he} loved most.", "It had been a present from {his} grandmother."});
    teller.say({"{He} looked {spot} and {spot2}, but it was not there.",
                "First {he} searched {spot}. Then {he} searched {spot2}. There was nothing.",
                "It was not {spot}, and it was not {spot2}."});
    teller.say({"{Hero} felt {sorrow}.", "{Hero} sat down and felt {sorrow}."});
    teller.say({"\"What is wrong?\" asked {friend}. \"I have lost my {object},\" said {hero}.",
                "\"Why are you so quiet?\" asked {friend}. \"My {object} is gone,\" {hero} answered."});
    teller.say({"\"Do not worry,\" said {friend}. \"Let us look together.\"",
                "\"Then we will find it,\" said {friend}. \"Come with me.\"",
                "\"I will help you,\" said {friend}. \"Two can see more than one.\""});
    teller.say({"Soon they met {a helper}.", "They walked and walked until they met {a helper}.",
                "After a while they saw {a helper} and told it everything."});
    teller.say({"\"I saw something {spot3},\" said the {helper}.", "\"Have you looked {spot3}?\" asked the {helper}.",
                "The {helper} thought for a moment. \"Try {spot3},\" it said."});
    teller.say({"They hurried there, and there was the {object}!", "And there it was, a little dusty but not broken.",
                "The friends ran as fast as they could. There lay the {object}, safe and sound."});
    teller.say(
        {"{Hero} hugged {friend} and thanked the {helper}.", "\"Thank you both!\" cried {hero}, and {he} felt {joy}."});
    teller.say({"From that day on, {hero} was not too proud to ask for help.",
                "{Hero} learned that every search is shorter with a friend.",
                "Now {hero} always puts the {object} back in its place."});
}

void tell_sharing(StoryTeller& teller) {
    teller.keep_halves("food", "food_short", kFoods);
    teller.keep({"helper"}, kHelpers);
    teller.keep({"goal"}, kGoals);
    teller.keep({"adult"}, kAdults);
    teller.say({"{One_day}, {hero} packed {food} and set out for {goal}.",
                "{One_day}, {his} {adult} gave {hero} {food} to take along to {goal}.",
                "{One_day}, {hero} was on the way to {goal} with {food}."});
    teller.say(
        {"{Weather_detail}", "The path was long, and {he} sang a little song.", "{He} could not wait to eat it."});
    teller.say({"Then {he} met {a helper} that looked thin and tired.",
                "By the side of the path sat {a helper}, weak and hungry.",
                "Halfway there {he} heard a soft voice. It was {a helper}."});
    teller.say({"\"I have not eaten all day,\" said the {helper}.",
                "\"Please,\" said the {helper}, \"do you have anything to eat?\"",
                "\"I am so hungry that I cannot walk,\" the {helper} said."});
    teller.say({"{Hero} looked at the {food_short}. {He} was hungry too.",
                "It was all that {hero} had, and {he} thought for a while.",
                "{Hero} held the {food_short} tightly. Would there be enough for two?"});
    teller.say({"Then {he} smiled. \"Here,\" {he} said, \"we can share.\"",
                "\"Half of it is yours,\" said {hero} at last.",
                "\"Sit down with me,\" said {hero}. \"There is enough for both of us.\""});
    teller.say({"They ate together and talked like old friends.",
                "They ate every bit of it, and nothing had ever tasted better.",
                "Soon the {helper} was strong again and went on its way."});
    teller.say({"Later that day, a thick fog came down, and {hero} lost the path.",
                "On the way back, {hero} took a wrong turn and did not know where {he} was.",
                "When evening came, {hero} could not find the way home."});
    teller.say({"But the {helper} came back and led {him} home, step by step.",
                "\"Follow me,\" called a voice. It was the {helper}, and it knew every path.",
                "Then the {helper} appeared and brought {him} safely to {his} door."});
    teller.say({"\"You helped me first,\" said the {helper}.", "{Hero} felt {joy}.",
                "\"Now we are friends,\" said the {helper}."});
    teller.say({"{Hero} learned that a kind deed comes back when you need it most.",
                "What you give away is never lost.",
                "Since then, {hero} always takes a little more food along, just in case."});
}

void tell_fear(StoryTeller& teller) {
    static constexpr std::array<Words, 8> kFears = {
        "the dark|the lamp went out and the whole house turned black",
        "thunder|a storm rolled over the hills and the windows shook",
        "the howling wind|the wind cried around the house like a wolf",
        "strange noises|something went knock, knock, knock in the attic",
        "high places|a kitten sat at the top of a ladder and could not get down",
        "the old cellar|{his} {adult} asked {him} to bring potatoes from the cellar",
        "speaking in front of others|{hero} had to tell a story at the village feast",
        "the long bridge|the only way home led over the long bridge"};
    static constexpr std::array<Words, 6> kAdvice = {
        "Count to ten with me|They counted slowly, and at ten the fear was much smaller",
        "Sing a song with me|They sang so loudly that {hero} forgot to be afraid",
        "Take one small step, and then one more|{Hero} took one small step, then another, and nothing bad happened",
        "Close your eyes and think of something nice|{Hero} thought of {food}, and soon {he} began to smile",
        "Breathe in, and breathe out|{Hero} breathed in and out until {his} heart was calm",
        "Hold on to me and look straight ahead|{Hero} held on to {friend} and looked straight ahead"};
    teller.keep({"adult"}, kAdults);
    teller.keep_halves("food", "food_short", kFoods);
    teller.keep_halves("fear", "fear_event", kFears);
    teller.keep_halves("advice", "advice_result", kAdvice);
    teller.say({"There was only one problem: {hero} was afraid of {fear}.",
                "But {hero} had a secret. {He} was afraid of {fear}.",
                "Nobody knew that {hero} was afraid of {fear}."});
    teller.say({"One evening, {fear_event}.", "Then, late one autumn day, {fear_event}.",
                "One evening in winter, {fear_event}."});
    teller.say({"{His} knees began to shake.", "{His} heart beat like a drum.",
                "{Hero} wanted to run away and hide under a blanket."});
    teller.say({"\"Are you scared?\" asked {friend}. \"A little,\" whispered {hero}.",
                "\"I cannot do this,\" {hero} said to {friend}.",
                "{Friend} saw it at once. \"You are shaking,\" {friend_he} said."});
    teller.say({"\"I was scared once too,\" said {friend}. \"{advice}.\"",
                "\"That is nothing to be ashamed of,\" said {friend}. \"{advice}.\"",
                "\"I am here,\" said {friend}. \"{advice}.\""});
    teller.say({"{advice_result}."});
    teller.say({"After a while it was over, and {hero} even laughed.", "And before {he} knew it, the worst was over.",
                "It was not as bad as {he} had thought."});
    teller.say({"\"I did it!\" cried {hero}. {He} felt {joy}.",
                "\"See?\" said {friend}. \"You are braver than you think.\"",
                "{Hero} thanked {friend} and felt {joy}."});
    teller.say({"Being brave does not mean that you are never afraid. It means that you try.",
                "{Hero} learned that a fear gets smaller when you share it.",
                "The next time, it was {hero} who helped somebody else to be brave."});
}

void tell_truth(StoryTeller& teller) {
    static constexpr std::array<Words, 9> kBreakables = {"blue vase",  "favorite cup", "clay pot",
                                                         "glass lamp", "flower pot",   "round mirror",
                                                         "tea pot",    "white plate",  "garden chair"};
    static constexpr std::array<Words, 6> kHidingPlaces = {"under the bed",    "behind the curtain", "in a deep drawer",
                                                           "under the leaves", "in an empty box",    "behind the shed"};
    teller.keep({"breakable"}, kBreakables);
    teller.keep({"hiding_place"}, kHidingPlaces);
    teller.keep({"adult"}, kAdults);
    teller.say({"{One_day}, {hero} was jumping around when {he} bumped into something. Crash!",
                "{One_day}, {hero} threw a ball much too high. Crash!",
                "{One_day}, {hero} ran around a corner without looking. Crash!"});
    teller.say({"The {breakable} of {his} {adult} lay on the ground in pieces.",
                "It was the {breakable}, which {his} {adult} liked so much, and now it was broken."});
    teller.say({"{Hero} felt {sorrow}.", "{Hero} held {his} breath and listened. Nobody came."});
    teller.say({"\"I could hide the pieces {hiding_place},\" {he} thought.",
                "{He} began to hide the pieces {hiding_place}.",
                "\"If I put everything {hiding_place}, nobody will know,\" {he} said."});
    teller.say({"But {friend} shook {friend_his} head. \"It is better to tell the truth,\" {friend_he} said.",
                "\"And then?\" asked {friend}. \"You would think of it every day.\"",
                "{Friend} looked at {him}. \"I will come with you,\" {friend_he} said. \"Let us tell it as it was.\""});
    teller.say({"So {hero} went to {his} {adult}. \"I am sorry,\" {he} said. \"I broke the {breakable}.\"",
                "It was hard, but {hero} told {his} {adult} everything."});
    teller.say({"For a moment it was very quiet.", "{His} {adult} looked at the pieces and sighed."});
    teller.say({"\"Thank you for telling me,\" said {his} {adult}. \"We can mend it together.\"",
                "\"Things can break,\" said {his} {adult}, \"but I am glad that I can trust you.\" Then they fetched "
                "the glue."});
    teller.say({"They worked until the evening. The {breakable} had a few cracks now, but it stood.",
                "In the end the {breakable} looked a bit crooked, and they both had to laugh."});
    teller.say({"{Hero} felt {joy}, because the truth was out.",
                "{Hero} learned that the truth is easier to carry than a lie.",
                "And {hero} never hid a mistake again."});
}

void tell_building(StoryTeller& teller) {
    static constexpr std::array<Words, 12> kCrafts = {"birdhouse",    "raft",          "tree house",   "little cart",
                                                      "swing",        "wooden bridge", "stone tower",  "scarecrow",
                                                      "rabbit hutch", "sled",          "garden bench", "water wheel"};
    static constexpr std::array<Words, 6> kFailures = {
        "it fell apart",          "it leaned to one side and tipped over",
        "the rope broke",         "the wind blew it down",
        "one part was too short", "the nails came loose"};
    teller.keep({"craft"}, kCrafts);
    teller.keep({"failure", "failure2"}, kFailures);
    teller.keep({"adult"}, kAdults);
    teller.say({"{One_day}, {hero} decided to build {a craft}.",
                "{One_day}, {hero} had an idea. {He} wanted to build {a craft} all alone."});
    teller.say({"{Weather_detail}", "{He} fetched wood, rope and a hammer from the shed.",
                "\"It will be the best {craft} in the world,\" {he} said."});
    teller.say({"{He} worked for hours, but {failure}.", "After an hour it looked nice, but then {failure}."});
    teller.say({"{He} tried again, and this time {failure2}.", "The second time {failure2}.",
                "\"Once more,\" said {hero}. But {failure2}."});
    teller.say({"\"I give up!\" cried {hero} and threw {his} hat on the ground.",
                "{Hero} felt {sorrow}. \"I will never be able to do it,\" {he} said."});
    teller.say({"{Friend} had watched {him} for a while. \"May I help you?\" {friend_he} asked.",
                "Just then {friend} came along. \"You are going too fast,\" {friend_he} said."});
    teller.say({"\"You hold this end, and I will tie the knot.\"", "\"Let us make a plan first.\"",
                "\"Let us ask your {adult} how it is done.\""});
    teller.say({"Together they measured every piece twice and worked slowly.",
                "Piece by piece, and without any hurry, they began again.",
                "They drew a picture in the sand and did one thing after the other."});
    teller.say({"When the sun went down, the {craft} was finished, and it did not fall.",
                "At last the {craft} stood there, strong and straight.",
                "This time everything held, and the {craft} was ready."});
    teller.say({"\"We did it!\" they shouted.", "{Hero} felt {joy}.", "Everybody came to see it."});
    teller.say({"{Hero} learned that good things take time.", "A mistake is only a step on the way.",
                "With patience and a good friend, almost anything can be built."});
}

void tell_finding(StoryTeller& teller) {
    static constexpr std::array<Words, 9> kTreasures = {
        "silver watch",       "gold ring", "brown purse",  "pearl necklace", "velvet bag full of coins",
        "small wooden flute", "old medal", "silver spoon", "ivory comb"};
    static constexpr std::array<Words, 8> kOwners = {"old woman",     "old man",        "sailor",  "shepherd",
                                                     "young painter", "tired traveler", "fiddler", "weaver"};
    static constexpr std::array<Words, 8> kWorkers = {"baker",    "farmer",    "miller",    "blacksmith",
                                                      "gardener", "fisherman", "shoemaker", "tailor"};
    teller.keep({"treasure"}, kTreasures);
    teller.keep({"owner"}, kOwners);
    teller.keep({"worker", "worker2"}, kWorkers);
    teller.keep({"spot"}, kOutdoors);
    teller.keep({"goal"}, kGoals);
    teller.keep_halves("food", "food_short", kFoods);
    teller.say({"{One_day}, {hero} found {a treasure} {spot}.",
                "{One_day}, {hero} saw something {spot}. It was {a treasure}!"});
    teller.say({"{Weather_detail}", "{Hero} had never seen anything so beautiful.", "{He} turned it over and over."});
    teller.say({"\"I could keep it,\" {hero} said to {friend}.", "\"Finders keepers,\" said {hero}.",
                "\"Now it is mine,\" said {hero} with a big smile."});
    teller.say({"\"Somebody is looking for it right now,\" said {friend}.",
                "\"How would you feel if it were yours?\" asked {friend}.",
                "{Friend} did not smile. \"I think that somebody misses it,\" {friend_he} said."});
    teller.say(
        {"{Hero} thought about it. Then {he} nodded.", "{Hero} was silent for a while. \"You are right,\" {he} said."});
    teller.say({"They asked the {worker}, but it was not his. They asked the {worker2}, but it was not his either.",
                "They went from door to door. The {worker} knew nothing, and the {worker2} knew nothing."});
    teller.say({"At last, on the way to {goal}, they met {a owner} who looked at the ground and felt {sorrow}.",
                "Near {goal} they saw {a owner} searching along the path."});
    teller.say({"\"Is this yours?\" asked {hero}.", "{Hero} held it out. \"Have you lost this?\" {he} asked."});
    teller.say({"\"Yes!\" cried the {owner}. \"My mother gave it to me long ago.\"",
                "The {owner} laughed and cried at the same time. \"I thought it was gone forever!\""});
    teller.say({"The {owner} thanked them and gave them {food}.", "As a reward, the {owner} shared {food} with them."});
    teller.say({"It tasted better than any treasure.", "{Hero} felt {joy}, and no treasure could have done that.",
                "{Hero} learned that giving back can feel better than keeping."});
}

void tell_quarrel(StoryTeller& teller) {
    teller.keep({"object"}, kObjects);
    teller.keep({"spot", "spot2"}, kOutdoors);
    teller.say({"{One_day}, {hero} and {friend} found {a object} {spot}.",
                "{One_day}, the two friends were walking along when they saw {a object} {spot}."});
    teller.say({"{Weather_detail}", "It looked almost new."});
    teller.say({"\"I saw it first!\" said {hero}. \"No, I did!\" said {friend}.",
                "\"It is mine!\" shouted {hero}. \"It is not!\" shouted {friend}."});
    teller.say({"They pulled and pulled until the {object} fell into the mud.",
                "They pulled from both sides, and then the {object} slipped out of their hands and fell into the dirt.",
                "They pushed each other, and the {object} fell into a deep puddle."});
    teller.say({"\"Look what you have done!\" said {friend} and went home.",
                "Both of them were angry, and both of them went home alone."});
    teller.say(
        {"{Hero} sat {spot2} and felt {sorrow}.", "In the afternoon {hero} tried to play alone, but it was no fun."});
    teller.say({"\"What good is {a object} without a friend?\" {he} thought.",
                "\"I miss {friend},\" {he} thought. \"It was not worth it.\""});
    teller.say({"So {he} went to the house of {friend} and knocked. \"I am sorry,\" {he} said.",
                "The next day {he} took a deep breath and went to see {friend}. \"Please forgive me,\" {he} said."});
    teller.say({"\"I am sorry too,\" said {friend}.",
                "{Friend} opened the door wide. \"I wanted to say the same,\" {friend_he} said."});
    teller.say({"Together they cleaned the {object} until it looked like new.",
                "They washed the {object} and dried it by the fire."});
    teller.say({"From then on they took turns, one day each.", "After that it belonged to both of them."});
    teller.say({"A thing is only half as nice when nobody shares it with you.",
                "They learned that saying sorry is the first step back.",
                "They still argue sometimes, but never for long."});
}

void tell_warning(StoryTeller& teller) {
    teller.keep({"adult"}, kAdults);
    teller.keep({"goal"}, kGoals);
    teller.keep({"helper"}, kHelpers);
    teller.say({"One day, {hero} wanted to go to {goal}.",
                "One autumn morning, {hero} put on {his} boots. \"I am going to {goal},\" {he} said."});
    teller.say({"\"Do not go far,\" said {his} {adult}. \"A storm is coming.\"",
                "\"Stay here today,\" said {his} {adult}. \"I can smell the rain.\"",
                "\"Wait until tomorrow,\" said {his} {adult}. \"The clouds are growing dark.\""});
    teller.say({"But {hero} did not listen.", "\"It will not be so bad,\" thought {hero}, and off {he} went.",
                "{Hero} only laughed and slipped out through the gate."});
    teller.say({"At first everything was fine, and {he} whistled on the way.",
                "For an hour {he} played and forgot the time."});
    teller.say({"Then the sky turned black, and the rain came down like a wall.",
                "Suddenly the wind roared, and the first drops fell, cold and heavy."});
    teller.say({"{Hero} could not see the path anymore. {He} was wet to the skin and felt {sorrow}.",
                "{Hero} crept under a bush and called for help."});
    teller.say({"Luckily {a helper} heard {him} and went to get {friend}.",
                "Nobody heard {him} but {a helper}, and it hurried off at once to find {friend}."});
    teller.say({"{Friend} came with a lantern. \"Stay close to me,\" {friend_he} said, and they walked home together.",
                "Soon {friend} stood there with a big umbrella. \"Here you are!\" {friend_he} cried."});
    teller.say({"At home {his} {adult} gave them dry clothes and hot soup.",
                "{His} {adult} hugged them both and put two cups of tea on the table."});
    teller.say(
        {"\"I should have listened,\" said {hero}.", "\"Next time I will stay,\" said {hero} in a small voice."});
    teller.say({"And {he} kept {his} word.", "{Hero} learned that good advice is worth more than a dry hat.",
                "Since then, {hero} looks at the clouds before {he} goes out."});
}

void tell_gift(StoryTeller& teller) {
    static constexpr std::array<Words, 8> kGifts = {"painted a picture of the two of them|picture",
                                                    "carved a little wooden bird|bird",
                                                    "made a crown of paper flowers|crown",
                                                    "wrote a poem on blue paper|poem",
                                                    "baked a very small cake|cake",
                                                    "filled a jar with the most beautiful shells|jar",
                                                    "knitted a pair of warm socks|pair of socks",
                                                    "made a tiny book of stories|book"};
    teller.keep_halves("gift_made", "gift", kGifts);
    teller.keep({"object", "object2"}, kObjects);
    teller.keep({"adult"}, kAdults);
    teller.say({"{One_day}, {hero} remembered that it was the birthday of {friend}.",
                "{One_day}, {friend} invited everybody to a birthday party."});
    teller.say({"{Weather_detail}", "There was to be cake and music."});
    teller.say({"{Hero} wanted to bring a present, but {he} had no money.",
                "\"What can I give?\" thought {hero}. {His} pockets were empty."});
    teller.say({"\"Give something that only you can make,\" said {his} {adult}.",
                "\"It does not have to cost anything,\" said {his} {adult}. \"It has to come from the heart.\""});
    teller.say({"So {hero} sat down and {gift_made}.", "{Hero} thought hard. Then {he} {gift_made}.",
                "{Hero} locked the door, worked in secret and {gift_made}."});
    teller.say({"At the party, one guest brought {a object}, and another brought {a object2}.",
                "The other guests brought {a object} and {a object2}, wrapped in shiny paper."});
    teller.say({"{Hero} felt {sorrow} and hid the {gift} behind {his} back.",
                "The {gift} looked very plain next to all that, and {hero} turned red."});
    teller.say({"\"What do you have there?\" asked {friend}.",
                "But {friend} had already seen it. \"Is that for me?\" {friend_he} asked."});
    teller.say({"When {friend_he} saw it, {friend_his} eyes grew wide. \"You made this yourself?\"",
                "{Friend} was quiet for a moment. Then {friend_he} hugged {hero} for a long time."});
    teller.say({"\"It is the best present of all,\" said {friend}.", "\"I will keep it forever,\" said {friend}."});
    teller.say({"{Hero} felt {joy}.", "The best gifts are made of time and love.",
                "And {hero} learned that a present does not have to be big."});
}

void tell_race(StoryTeller& teller) {
    static constexpr std::array<Words, 7> kPrizes = {"golden cup",   "basket of apples",  "blue ribbon",    "big cake",
                                                     "silver medal", "new pair of boots", "crown of leaves"};
    teller.keep({"prize"}, kPrizes);
    teller.keep({"goal"}, kGoals);
    teller.say({"Every year there was a race to {goal}, and the winner got {a prize}.",
                "Once a year, everybody ran a race to {goal}. The prize was {a prize}."});
    teller.say({"{Hero} had trained for weeks and wanted to win.", "This year {hero} was sure that {he} would win."});
    teller.say({"{One_day}, all the runners stood at the line. \"Ready, steady, go!\"",
                "Then the great day came. It was {a weather} one, and the whole village was there."});
    teller.say({"{Hero} ran like the wind, and soon only {friend} was close behind.",
                "After the first turn {hero} was in front, and {friend} was second."});
    teller.say({"Suddenly there was a cry. {Friend} had tripped over a root and held {friend_his} foot.",
                "Then {he} heard a thump. {Friend} lay on the ground and could not get up."});
    teller.say(
        {"{Hero} looked at the finish. It was so close!", "\"Run on!\" called {friend}. \"You can still win!\""});
    teller.say({"But {hero} turned around and went back.", "{Hero} stopped. \"Not without you,\" {he} said."});
    teller.say({"{He} let {friend} lean on {him}, and they walked the rest of the way together.",
                "{He} helped {friend} up, and side by side they went on, step by step."});
    teller.say({"The others ran past them, one after another.", "They were the last to arrive."});
    teller.say({"But when they crossed the line, the whole village cheered.",
                "And yet nobody clapped for the winner as loudly as for the two of them."});
    teller.say({"The winner came over and laid the {prize} at their feet.",
                "\"I would rather have a friend than {a prize},\" said {hero}."});
    teller.say({"{Hero} felt {joy}.", "To be first is nice, but to be kind is better.",
                "{Hero} had lost the race and won something greater."});
}

}  // namespace

void tell_plot(StoryTeller& teller) {
    static constexpr std::array kPlots = {tell_lost,    tell_sharing, tell_fear,    tell_truth, tell_building,
                                          tell_finding, tell_quarrel, tell_warning, tell_gift,  tell_race};
    teller.keep({"sorrow"}, kSorrows);
    teller.keep({"joy"}, kJoys);
    kPlots[teller.draw(kPlots.size())](teller);
}

}  // namespace accrue
