#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace accrue {

// A regular expression of a tokenizer file. Such files are written for Oniguruma; what PCRE2 would read differently is
// translated (\s) or refused with an error that names it (\w, \h, ^, classes within classes, ...).
class Pattern {
public:
    explicit Pattern(std::string_view source);
    ~Pattern();
    Pattern(Pattern&& other) noexcept;
    Pattern& operator=(Pattern&& other) noexcept;

    // A range of bytes of the text.
    struct Match {
        size_t begin;
        size_t end;
        friend bool operator==(const Match&, const Match&) = default;
    };
    // All matches from left to right, which do not overlap. The text must be UTF-8.
    [[nodiscard]] std::vector<Match> find_all(std::string_view text) const;

private:
    struct Code;
    std::unique_ptr<Code> code_;
    std::string source_;
};

}  // namespace accrue
