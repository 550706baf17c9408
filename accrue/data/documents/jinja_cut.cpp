#include "accrue/base/error.h"
#include "accrue/data/documents/jinja_parts.h"

namespace accrue {
namespace {

constexpr std::string_view kJinjaSpace = " \t\r\n\f\v";

bool is_name_letter(char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           letter == '_';
}

bool is_digit_letter(char letter) {
    return letter >= '0' && letter <= '9';
}

// A string in quotes; `place` is at the first quote, and behind the last afterwards.
std::string read_quoted(std::string_view text, size_t& place) {
    const char quote = text[place++];
    std::string contents;
    for (; place < text.size() && text[place] != quote; ++place) {
        if (text[place] != '\\' || place + 1 >= text.size()) {
            contents += text[place];
            continue;
        }
        constexpr std::string_view kNames = "nrt\\'\"";
        constexpr std::string_view kValues = "\n\r\t\\'\"";
        const size_t known = kNames.find(text[++place]);
        if (known == std::string_view::npos) {
            throw Error(cat("the escape \\", text[place], " in a string"));
        }
        contents += kValues[known];
    }
    if (place == text.size()) {
        throw Error("a string without an end");
    }
    ++place;
    return contents;
}

std::vector<JinjaToken> words_of(std::string_view text) {
    using Kind = JinjaToken::Kind;
    std::vector<JinjaToken> tokens;
    size_t place = 0;
    while ((place = text.find_first_not_of(kJinjaSpace, place)) != std::string_view::npos) {
        const char first = text[place];
        if (first == '\'' || first == '"') {
            tokens.push_back({Kind::string, read_quoted(text, place)});
        } else if (is_name_letter(first)) {
            const size_t begin = place;
            while (place < text.size() && is_name_letter(text[place])) {
                ++place;
            }
            tokens.push_back(
                {is_digit_letter(first) ? Kind::number : Kind::name, std::string(text.substr(begin, place - begin))});
        } else {
            const std::string_view two = text.substr(place, 2);
            const bool is_pair = two == "==" || two == "!=" || two == "<=" || two == ">=" || two == "//" || two == "**";
            tokens.push_back({Kind::sign, std::string(text.substr(place, is_pair ? 2 : 1))});
            place += is_pair ? 2 : 1;
        }
    }
    tokens.push_back({});
    return tokens;
}

// Where a tag that was begun ends: the place of its closing mark, outside of strings.
size_t end_of_tag(std::string_view source, size_t place, std::string_view mark) {
    for (; place < source.size(); ++place) {
        if (source.substr(place, mark.size()) == mark) {
            return place;
        }
        if (mark != "#}" && (source[place] == '\'' || source[place] == '"')) {
            (void)read_quoted(source, place);
            --place;
        }
    }
    throw Error(cat("a tag without its ", mark));
}

void strip_end(std::string& text, std::string_view letters) {
    text.resize(text.find_last_not_of(letters) + 1);
}

// White space between the begin of a line and a tag is not written.
void strip_line_begin(std::string& text, bool begins_line) {
    const size_t last = text.find_last_not_of(" \t");
    if (last == std::string::npos ? begins_line : text[last] == '\n') {
        text.resize(last + 1);
    }
}

}  // namespace

std::vector<JinjaPiece> cut_jinja(std::string_view source) {
    using Kind = JinjaPiece::Kind;
    if (source.ends_with('\n')) {
        source.remove_suffix(1);
    }
    std::vector<JinjaPiece> pieces;
    bool after_block = false;  // a line end behind one is not written
    bool strip_begin = false;  // nor any white space behind a "-"
    for (size_t place = 0; place < source.size();) {
        size_t open = place;
        while (
            (open = source.find('{', open)) != std::string_view::npos &&
            (open + 1 == source.size() || std::string_view("{%#").find(source[open + 1]) == std::string_view::npos)) {
            ++open;
        }
        std::string text(source.substr(place, open == std::string_view::npos ? open : open - place));
        bool begins_line = place == 0;
        if (strip_begin) {
            text.erase(0, text.find_first_not_of(kJinjaSpace));
        } else if (after_block && text.starts_with('\n')) {
            text.erase(0, 1);
            begins_line = true;
        }
        if (open == std::string_view::npos) {
            pieces.push_back({Kind::text, std::move(text)});
            break;
        }
        const char kind = source[open + 1];
        const std::string mark = kind == '{' ? "}}" : (kind == '%' ? "%}" : "#}");
        const size_t close = end_of_tag(source, open + 2, mark);
        std::string_view inside = source.substr(open + 2, close - open - 2);
        const char before = inside.empty() ? ' ' : inside.front();
        if (before == '-') {
            strip_end(text, kJinjaSpace);
        } else if (kind != '{' && before != '+') {
            strip_line_begin(text, begins_line);
        }
        inside.remove_prefix(before == '-' || before == '+' ? 1 : 0);
        const char behind = inside.empty() ? ' ' : inside.back();
        strip_begin = behind == '-';
        after_block = kind != '{' && behind != '+';
        inside.remove_suffix(behind == '-' || behind == '+' ? 1 : 0);
        pieces.push_back({Kind::text, std::move(text)});
        if (kind != '#') {
            pieces.push_back({kind == '{' ? Kind::output : Kind::statement, "", words_of(inside)});
        }
        place = close + mark.size();
    }
    return pieces;
}

}  // namespace accrue
