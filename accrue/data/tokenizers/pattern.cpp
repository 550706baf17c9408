#define PCRE2_CODE_UNIT_WIDTH 8

#include "accrue/data/tokenizers/pattern.h"

#include <algorithm>
#include <array>
#include <utility>

#include <pcre2.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

// PCRE2's \s also has U+180E, which Unicode no longer counts as white space; Oniguruma follows Unicode.
constexpr std::string_view kWhiteSpace =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
// Escapes that mean the same in both: properties, digits, control characters and a quoted sign.
constexpr std::string_view kSameEscapes = "pPdDnrtfv0xAz";

std::string message_of(int code) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(code, text.data(), text.size());
    return reinterpret_cast<const char*>(text.data());
}

// Rewrites a pattern for PCRE2, sign by sign.
class Translation {
public:
    explicit Translation(std::string_view source) : source_(source) {}

    std::string run() {
        for (place_ = 0; place_ < source_.size(); ++place_) {
            const char sign = source_[place_];
            if (sign == '\\') {
                take_escape();
            } else if (in_class_) {
                take_in_class(sign);
            } else {
                take_outside(sign);
            }
        }
        return std::move(result_);
    }

private:
    [[nodiscard]] char next(size_t ahead = 1) const {
        return place_ + ahead < source_.size() ? source_[place_ + ahead] : '\0';
    }

    [[noreturn]] void refuse(std::string_view part) const {
        throw Error(cat("the pattern ", source_, " has ", part, ", which is not supported"));
    }

    void take_escape() {
        const char letter = next();
        ++place_;
        if (letter == 's') {
            result_ += in_class_ ? std::string(kWhiteSpace) : cat('[', kWhiteSpace, ']');
        } else if (letter == 'S' && !in_class_) {
            result_ += cat("[^", kWhiteSpace, ']');
        } else if (kSameEscapes.find(letter) != std::string_view::npos ||
                   std::string_view("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ").find(letter) != std::string_view::npos) {
            result_ += {'\\', letter};
            take_braces(letter);
        } else {
            refuse(cat('\\', letter, in_class_ ? " in a class" : ""));
        }
    }

    // What belongs to \p and \x.
    void take_braces(char letter) {
        if (next() == '{' && (letter == 'p' || letter == 'P' || letter == 'x')) {
            const size_t end = std::min(source_.find('}', place_), source_.size() - 1);
            result_ += source_.substr(place_ + 1, end - place_);
            place_ = end;
        }
    }

    void take_in_class(char sign) {
        if (sign == '[') {
            refuse("a class within a class");
        }
        if (sign == '&' && next() == '&') {
            refuse("&& in a class");
        }
        // A ] that stands first is itself.
        if (sign == ']' && place_ != class_begin_) {
            in_class_ = false;
        }
        result_ += sign;
    }

    void take_outside(char sign) {
        if (sign == '^' || sign == '$') {
            refuse(cat("the anchor ", sign));
        }
        if (sign == '}' && next() == '+') {
            refuse("a + behind }");
        }
        result_ += sign;
        if (sign == '[') {
            in_class_ = true;
            if (next() == '^') {
                result_ += '^';
                ++place_;
            }
            class_begin_ = place_ + 1;
        }
    }

    std::string_view source_;
    std::string result_;
    size_t place_ = 0;
    size_t class_begin_ = 0;
    bool in_class_ = false;
};

using MatchData = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;

}  // namespace

struct Pattern::Code {
    pcre2_code* compiled = nullptr;

    explicit Code(pcre2_code* code) : compiled(code) {}
    ~Code() { pcre2_code_free(compiled); }
    Code(const Code&) = delete;
    Code& operator=(const Code&) = delete;

    // One match at or behind a place, or no match. Without just-in-time code where that runs out of its stack.
    [[nodiscard]] int match(std::string_view text, size_t from, pcre2_match_data* data) const {
        const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
        const int found = pcre2_match(compiled, subject, text.size(), from, PCRE2_NO_UTF_CHECK, data, nullptr);
        if (found != PCRE2_ERROR_JIT_STACKLIMIT) {
            return found;
        }
        const uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT;
        return pcre2_match(compiled, subject, text.size(), from, options, data, nullptr);
    }
};

Pattern::Pattern(std::string_view source) : source_(source) {
    const std::string translated = Translation(source).run();
    int error = 0;
    size_t place = 0;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                     PCRE2_UTF | PCRE2_UCP, &error, &place, nullptr);
    if (code == nullptr) {
        throw Error(cat("the pattern ", source_, " cannot be read: ", message_of(error)));
    }
    code_ = std::make_unique<Code>(code);
    // Where this processor has no just-in-time compiler, matching is slower and the same.
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
}

Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&& other) noexcept = default;
Pattern& Pattern::operator=(Pattern&& other) noexcept = default;

std::vector<Pattern::Match> Pattern::find_all(std::string_view text) const {
    std::vector<Match> matches;
    const MatchData data(pcre2_match_data_create_from_pattern(code_->compiled, nullptr), &pcre2_match_data_free);
    for (size_t from = 0; from <= text.size();) {
        const int found = code_->match(text, from, data.get());
        if (found == PCRE2_ERROR_NOMATCH) {
            break;
        }
        if (found < 0) {
            throw Error(cat("the pattern ", source_, " failed on a text of ", text.size(),
                            " bytes: ", message_of(found), ". Cut the text into shorter documents."));
        }
        const size_t* range = pcre2_get_ovector_pointer(data.get());
        const Match match = {range[0], range[1]};
        const bool empty = match.begin == match.end;
        // An empty match right behind another match is none.
        if (!empty || matches.empty() || matches.back().end != match.begin) {
            matches.push_back(match);
        }
        from = match.end;
        if (empty) {
            ++from;
            while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0U) == 0x80) {
                ++from;
            }
        }
    }
    return matches;
}

}  // namespace accrue
