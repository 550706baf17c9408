#include "accrue/data/tokenizers/added_tokens.h"

#include <algorithm>

#include "accrue/data/tokenizers/unicode.h"

namespace accrue {
namespace {

bool stands_alone(std::string_view text, size_t begin, size_t end) {
    const bool left = begin == 0 || !is_word_character(character_before(text, begin).value);
    const bool right = end == text.size() || !is_word_character(character_at(text, end).value);
    return left && right;
}

size_t white_space_before(std::string_view text, size_t place) {
    while (place > 0) {
        const Character character = character_before(text, place);
        if (!is_white_space(character.value)) {
            break;
        }
        place -= character.size;
    }
    return place;
}

size_t white_space_behind(std::string_view text, size_t place) {
    while (place < text.size()) {
        const Character character = character_at(text, place);
        if (!is_white_space(character.value)) {
            break;
        }
        place += character.size;
    }
    return place;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
    std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
    std::stable_sort(tokens_.begin(), tokens_.end(),
                     [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
    for (const AddedToken& token : tokens_) {
        begins_[static_cast<unsigned char>(token.content.front())] = true;
    }
}

const AddedToken* AddedTokenFinder::token_at(std::string_view text, size_t place) const {
    const AddedToken* longest = nullptr;
    auto first = tokens_.begin();
    auto last = tokens_.end();
    for (size_t depth = 0; first != last; ++depth) {
        if (first->content.size() == depth) {
            longest = &*first;
            first = std::find_if(first, last, [&](const AddedToken& token) { return token.content.size() > depth; });
        }
        if (place + depth == text.size()) {
            break;
        }
        const auto letter = static_cast<unsigned char>(text[place + depth]);
        const auto before = [&](const AddedToken& token) {
            return static_cast<unsigned char>(token.content[depth]) < letter;
        };
        const auto not_behind = [&](const AddedToken& token) {
            return static_cast<unsigned char>(token.content[depth]) <= letter;
        };
        first = std::partition_point(first, last, before);
        last = std::partition_point(first, last, not_behind);
    }
    return longest;
}

std::vector<AddedTokenFinder::Segment> AddedTokenFinder::split(std::string_view text) const {
    std::vector<Segment> segments;
    size_t taken = 0;
    for (size_t place = 0; place < text.size();) {
        const AddedToken* token = begins_[static_cast<unsigned char>(text[place])] ? token_at(text, place) : nullptr;
        if (token == nullptr) {
            ++place;
            continue;
        }
        size_t begin = place;
        size_t end = place + token->content.size();
        place = end;
        if (token->single_word && !stands_alone(text, begin, end)) {
            continue;
        }
        if (token->left_strip) {
            begin = std::max(white_space_before(text, begin), taken);
        }
        if (token->right_strip) {
            end = white_space_behind(text, end);
        }
        if (taken < begin) {
            segments.push_back({text.substr(taken, begin - taken)});
        }
        segments.push_back({text.substr(begin, end - begin), token->id});
        taken = end;
    }
    if (taken < text.size()) {
        segments.push_back({text.substr(taken)});
    }
    return segments;
}

}  // namespace accrue
