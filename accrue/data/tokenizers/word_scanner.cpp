#include "accrue/data/tokenizers/word_scanner.h"

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/data/tokenizers/pattern.h"
#include "accrue/data/tokenizers/unicode.h"

namespace accrue {
namespace {

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt2Short = R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr char32_t kCharacters = 0x110000;
constexpr char32_t kLongS = 0x17F;

enum class Kind : uint8_t { sign, letter, number, space };

// What each character is. Letters and numbers are asked from the library that matches patterns, so that both know the
// same version of Unicode.
class Kinds {
public:
    Kinds() : kinds_(kCharacters, Kind::sign) {
        std::string all;
        for (char32_t character = 0; character < kCharacters; ++character) {
            if (character < 0xD800 || character > 0xDFFF) {
                append_utf8(all, character);
            }
        }
        mark(all, Pattern(R"(\p{L}+)"), Kind::letter);
        mark(all, Pattern(R"(\p{N}+)"), Kind::number);
        for (char32_t character = 0; character <= 0x3000; ++character) {
            if (is_white_space(character)) {
                kinds_[character] = Kind::space;
            }
        }
    }

    [[nodiscard]] Kind of(char32_t character) const { return character < kCharacters ? kinds_[character] : Kind::sign; }

private:
    void mark(std::string_view all, const Pattern& pattern, Kind kind) {
        for (const Pattern::Match& match : pattern.find_all(all)) {
            for (size_t place = match.begin; place < match.end;) {
                const Character character = character_at(all, place);
                kinds_[character.value] = kind;
                place += character.size;
            }
        }
    }

    std::vector<Kind> kinds_;
};

const Kinds& kinds() {
    static const Kinds table;
    return table;
}

// Walks over one text.
class Scan {
public:
    explicit Scan(std::string_view text) : text_(text), kinds_(kinds()) {}

    struct Step {
        Kind kind = Kind::sign;
        char32_t value = Character::kInvalid;
        size_t end = 0;
    };

    [[nodiscard]] bool ends(size_t place) const { return place >= text_.size(); }

    [[nodiscard]] Step at(size_t place) const {
        const auto lead = static_cast<unsigned char>(text_[place]);
        const Character character = lead < 0x80 ? Character{lead, 1} : character_at(text_, place);
        return {kinds_.of(character.value), character.value, place + character.size};
    }

    [[nodiscard]] bool is(Kind kind, size_t place) const { return !ends(place) && at(place).kind == kind; }

    // Behind the characters of one kind that begin here.
    [[nodiscard]] size_t run(Kind kind, size_t place) const {
        while (!ends(place)) {
            const Step step = at(place);
            if (step.kind != kind) {
                break;
            }
            place = step.end;
        }
        return place;
    }

    [[nodiscard]] char byte(size_t place) const { return ends(place) ? '\0' : text_[place]; }

    // Where 's, 't, 're, 've, 'm, 'll or 'd ends that begins at this apostrophe; 0 for none.
    [[nodiscard]] size_t contraction(size_t place, bool any_case) const {
        const auto letter = [&](size_t index) -> char {
            const char found = byte(index);
            return any_case && found >= 'A' && found <= 'Z' ? static_cast<char>(found - 'A' + 'a') : found;
        };
        const char first = letter(place + 1);
        if (first == 's' || first == 't' || first == 'm' || first == 'd') {
            return place + 2;
        }
        const char second = letter(place + 2);
        if (((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l')) {
            return place + 3;
        }
        // The long s is an s where case does not matter.
        if (any_case && !ends(place + 1) && at(place + 1).value == kLongS) {
            return at(place + 1).end;
        }
        return 0;
    }

    // White space before a word leaves its last character to the word.
    [[nodiscard]] size_t white_space(size_t begin) const {
        size_t last = begin;
        size_t end = begin;
        while (is(Kind::space, end)) {
            last = end;
            end = at(end).end;
        }
        return ends(end) || last == begin ? end : last;
    }

    // Behind the last line end in the white space that begins here; `begin` if there is none.
    [[nodiscard]] size_t last_line_end(size_t begin) const {
        size_t found = begin;
        for (size_t place = begin; is(Kind::space, place); place = at(place).end) {
            if (text_[place] == '\r' || text_[place] == '\n') {
                found = place + 1;
            }
        }
        return found;
    }

private:
    std::string_view text_;
    const Kinds& kinds_;
};

size_t gpt2_word_end(const Scan& scan, size_t begin) {
    const Scan::Step first = scan.at(begin);
    if (first.value == '\'') {
        if (const size_t end = scan.contraction(begin, false); end != 0) {
            return end;
        }
    }
    if (first.value == ' ' && !scan.ends(first.end)) {
        const Kind kind = scan.at(first.end).kind;
        if (kind != Kind::space) {
            return scan.run(kind, first.end);
        }
    }
    return first.kind == Kind::space ? scan.white_space(begin) : scan.run(first.kind, first.end);
}

size_t signs_end(const Scan& scan, size_t begin) {
    size_t end = scan.run(Kind::sign, begin);
    while (scan.byte(end) == '\r' || scan.byte(end) == '\n') {
        ++end;
    }
    return end;
}

size_t digits_end(const Scan& scan, size_t end, int more) {
    for (; more > 0 && scan.is(Kind::number, end); --more) {
        end = scan.at(end).end;
    }
    return end;
}

size_t llama3_word_end(const Scan& scan, size_t begin, int digits) {
    const Scan::Step first = scan.at(begin);
    if (first.value == '\'') {
        if (const size_t end = scan.contraction(begin, true); end != 0) {
            return end;
        }
    }
    if (first.kind == Kind::letter) {
        return scan.run(Kind::letter, first.end);
    }
    if (first.kind == Kind::number) {
        return digits_end(scan, first.end, digits - 1);
    }
    const bool line_end = first.value == '\r' || first.value == '\n';
    if (!line_end && scan.is(Kind::letter, first.end)) {
        return scan.run(Kind::letter, first.end);
    }
    if (first.kind == Kind::sign) {
        return signs_end(scan, first.end);
    }
    if (first.value == ' ' && scan.is(Kind::sign, first.end)) {
        return signs_end(scan, first.end);
    }
    const size_t line = scan.last_line_end(begin);
    return line != begin ? line : scan.white_space(begin);
}

}  // namespace

std::string_view pattern_of(WordRule rule) {
    switch (rule) {
        case WordRule::gpt2:
            return kGpt2;
        case WordRule::llama3:
            return kLlama3;
        case WordRule::qwen2:
            break;
    }
    return kQwen2;
}

std::optional<WordRule> word_rule_of(std::string_view pattern) {
    if (pattern == kGpt2 || pattern == kGpt2Short) {
        return WordRule::gpt2;
    }
    if (pattern == kLlama3) {
        return WordRule::llama3;
    }
    if (pattern == kQwen2) {
        return WordRule::qwen2;
    }
    return std::nullopt;
}

WordScanner::WordScanner(WordRule rule) : rule_(rule) {
    (void)kinds();
}

size_t WordScanner::word_end(std::string_view text, size_t begin) const {
    const Scan scan(text);
    if (rule_ == WordRule::gpt2) {
        return gpt2_word_end(scan, begin);
    }
    return llama3_word_end(scan, begin, rule_ == WordRule::llama3 ? 3 : 1);
}

}  // namespace accrue
