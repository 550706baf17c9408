#include "bench/tokenizer_bench_text.h"

#include <array>
#include <cctype>
#include <cmath>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "accrue/base/random.h"
#include "accrue/data/tokenizers/byte_alphabet.h"
#include "accrue/data/tokenizers/sentencepiece_testing.h"
#include "accrue/data/tokenizers/unicode.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMark = "\u2581";

// Numbers from a seed, one after another.
class Dice {
public:
    explicit Dice(uint64_t seed) : seed_(seed) {}
    uint64_t below(uint64_t end) { return mix(seed_, count_++) % end; }
    double fraction() { return static_cast<double>(below(uint64_t{1} << 53)) / static_cast<double>(uint64_t{1} << 53); }

private:
    uint64_t seed_;
    uint64_t count_ = 0;
};

// The frequent words are the short ones.
std::vector<std::string> make_words() {
    constexpr size_t kWords = 120'000;
    constexpr std::array<const char*, 24> kStarts = {"",   "b",  "c",  "d",  "f",  "g",  "h",  "l",
                                                     "m",  "n",  "p",  "r",  "s",  "t",  "v",  "w",
                                                     "th", "st", "ch", "pr", "tr", "sh", "gr", "bl"};
    constexpr std::array<const char*, 10> kVowels = {"a", "e", "i", "o", "u", "ea", "ou", "ai", "e", "o"};
    constexpr std::array<const char*, 12> kEnds = {"", "", "n", "r", "s", "t", "l", "nd", "ng", "rt", "ck", "m"};
    Dice dice(1);
    std::set<std::string> known;
    std::vector<std::string> words;
    while (words.size() < kWords) {
        const uint64_t most = words.size() < 50 ? 1 : words.size() < 2000 ? 2 : words.size() < 20'000 ? 3 : 4;
        std::string word;
        for (uint64_t syllables = 1 + dice.below(most); syllables > 0; --syllables) {
            word += kStarts[dice.below(kStarts.size())];
            word += kVowels[dice.below(kVowels.size())];
            word += kEnds[dice.below(kEnds.size())];
        }
        if (known.insert(word).second) {
            words.push_back(word);
        }
    }
    return words;
}

// Of 1/r: the rank below which a fraction of all words lies grows exponentially with the fraction.
const std::string& zipf_word(const std::vector<std::string>& words, Dice& dice) {
    const auto rank = static_cast<size_t>(std::pow(static_cast<double>(words.size()), dice.fraction()));
    return words[std::min(rank, words.size()) - 1];
}

// A token's text with marks for spaces; empty where it is half a character or a byte that is no text.
std::string text_of(const std::string& token) {
    const std::optional<std::string> bytes = bytes_of_spelling(token);
    if (!bytes || !is_utf8(*bytes) || token == "<|endoftext|>") {
        return "";
    }
    std::string text;
    for (const char letter : *bytes) {
        text += letter == ' ' ? std::string(kMark) : std::string(1, letter);
    }
    return text;
}

}  // namespace

std::string english_like_text(uint64_t seed, size_t bytes) {
    const std::vector<std::string> words = make_words();
    Dice dice(1000 + seed);
    std::string text;
    while (text.size() < bytes) {
        for (uint64_t left = 4 + dice.below(20), first = 1; left > 0; --left, first = 0) {
            std::string word = dice.below(60) == 0 ? std::to_string(dice.below(2100)) : zipf_word(words, dice);
            if (first != 0 || dice.below(40) == 0) {
                word.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(word.front())));
            }
            text += word;
            text += left == 1 ? "." : dice.below(12) == 0 ? ", " : " ";
        }
        text += dice.below(4) == 0 ? "\n" : " ";
    }
    return text;
}

std::string sentencepiece_model_of(const std::string& byte_level_json) {
    using PieceType = SentencePieceModel::PieceType;
    SentencePieceWriter writer;
    writer.like_llama().piece("<unk>", 0, PieceType::unknown);
    writer.piece("<s>", 0, PieceType::control).piece("</s>", 0, PieceType::control).bytes();
    const Json old = Json::parse(byte_level_json);
    float score = 0;
    std::set<std::string> known;
    // Merges come first, because a character's score never decides anything.
    for (const bool one_character : {false, true}) {
        for (const auto& [token, id] : old.at("model").at("vocab").items()) {
            const std::string text = text_of(token);
            const bool is_one = !text.empty() && character_at(text, 0).size == text.size();
            if (!text.empty() && is_one == one_character && text != std::string(1, '\0') && known.insert(text).second) {
                writer.piece(text, score--);
            }
        }
    }
    return writer.contents();
}

std::string sentencepiece_json_of(const std::string& byte_level_json) {
    const Json old = Json::parse(byte_level_json);
    Json vocabulary = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
    Json::object_t::Container& members = vocabulary.get_ref<Json::object_t&>();
    for (size_t byte = 0; byte < 256; ++byte) {
        members.emplace_back(fmt::format("<0x{:02X}>", byte), members.size());
    }
    std::set<std::string> known;
    for (const auto& [token, id] : old.at("model").at("vocab").items()) {
        if (const std::string text = text_of(token); !text.empty() && known.insert(text).second) {
            members.emplace_back(text, members.size());
        }
    }
    Json merges = Json::array();
    for (const Json& merge : old.at("model").at("merges")) {
        const auto joined = merge.is_string() ? merge.get<std::string>() : "";
        const size_t space = joined.find(' ');
        const std::string left = text_of(merge.is_array() ? merge.at(0).get<std::string>() : joined.substr(0, space));
        const std::string right = text_of(merge.is_array() ? merge.at(1).get<std::string>() : joined.substr(space + 1));
        if (known.count(left) != 0 && known.count(right) != 0 && known.count(left + right) != 0) {
            merges.push_back({left, right});
        }
    }
    const auto replace = [](std::string_view from, std::string_view to) {
        return Json{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
    };
    const Json decoders = {replace(kMark, " "),
                           {{"type", "ByteFallback"}},
                           {{"type", "Fuse"}},
                           {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}};
    const Json normalizers = {{{"type", "Prepend"}, {"prepend", kMark}}, replace(" ", kMark)};
    return Json{{"added_tokens", Json::array()},
                {"normalizer", {{"type", "Sequence"}, {"normalizers", normalizers}}},
                {"pre_tokenizer", nullptr},
                {"post_processor", nullptr},
                {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}},
                {"model",
                 {{"type", "BPE"},
                  {"unk_token", "<unk>"},
                  {"fuse_unk", true},
                  {"byte_fallback", true},
                  {"vocab", vocabulary},
                  {"merges", merges}}}}
        .dump();
}

}  // namespace accrue
