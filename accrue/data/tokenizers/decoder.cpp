#include <algorithm>
#include <charconv>
#include <utility>

#include "accrue/data/tokenizers/byte_alphabet.h"
#include "accrue/data/tokenizers/text_steps.h"

namespace accrue {
namespace {

using Tokens = std::vector<std::string>;

template <class Change>
TextDecoder each_token(Change change, TextDecoder::Sight sight = TextDecoder::Sight::token) {
    return {.rewrite =
                [change = std::move(change)](Tokens tokens) {
                    for (std::string& token : tokens) {
                        token = change(std::move(token));
                    }
                    return tokens;
                },
            .sight = sight};
}

std::string byte_or_token(std::string token) {
    if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) {
        return token;
    }
    unsigned value = 0;
    const char* const end = token.data() + 5;
    const auto [stopped, error] = std::from_chars(token.data() + 3, end, value, 16);
    return error == std::errc() && stopped == end ? std::string(1, static_cast<char>(value)) : token;
}

std::string stripped(const std::string& token, const Strip& strip) {
    size_t begin = 0;
    for (size_t i = 0; i < strip.from_begin && begin < token.size(); ++i) {
        const Character character = character_at(token, begin);
        if (character.value != strip.character) {
            break;
        }
        begin += character.size;
    }
    size_t end = token.size();
    for (size_t i = 0; i < strip.from_end && end > begin; ++i) {
        const Character character = character_before(token, end);
        if (character.value != strip.character) {
            break;
        }
        end -= character.size;
    }
    return token.substr(begin, end - begin);
}

}  // namespace

TextDecoder byte_level_decoder() {
    // A token that is not spelled in the alphabet, such as an added one, is text already.
    return each_token([](const std::string& token) { return bytes_of_spelling(token).value_or(token); });
}

TextDecoder replace_decoder(std::string from, std::string to) {
    return each_token(replace_step(std::move(from), std::move(to)));
}

TextDecoder byte_fallback_decoder() {
    return each_token(byte_or_token);
}

TextDecoder fuse_decoder() {
    return {.rewrite =
                [](const Tokens& tokens) {
                    Tokens one(1);
                    for (const std::string& token : tokens) {
                        one.front() += token;
                    }
                    return one;
                },
            .sight = TextDecoder::Sight::all};
}

TextDecoder strip_decoder(const Strip& strip) {
    return each_token([strip](const std::string& token) { return stripped(token, strip); },
                      strip.from_end == 0 ? TextDecoder::Sight::begin : TextDecoder::Sight::token);
}

TextDecoder mark_decoder(std::string mark, PrependMark prepend) {
    const Normalizer first = replace_step(mark, prepend == PrependMark::never ? " " : "");
    const Normalizer other = replace_step(std::move(mark), " ");
    return {.rewrite =
                [first, other](Tokens tokens) {
                    for (size_t i = 0; i < tokens.size(); ++i) {
                        tokens[i] = i == 0 ? first(std::move(tokens[i])) : other(std::move(tokens[i]));
                    }
                    return tokens;
                },
            .sight = TextDecoder::Sight::token};
}

bool rewrites_text(const std::vector<TextDecoder>& steps) {
    const auto fuse = std::find_if(steps.begin(), steps.end(),
                                   [](const TextDecoder& step) { return step.sight == TextDecoder::Sight::all; });
    return std::any_of(fuse, steps.end(),
                       [](const TextDecoder& step) { return step.sight == TextDecoder::Sight::token; });
}

}  // namespace accrue
