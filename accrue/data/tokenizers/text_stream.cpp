#include "accrue/data/tokenizers/text_stream.h"

#include <algorithm>
#include <utility>

namespace accrue {
namespace {

constexpr std::string_view kReplacementMark = "\xEF\xBF\xBD";
// A character has at most four bytes, so that at most three wait for the last one.
constexpr size_t kMostWaiting = 3;

size_t character_size(unsigned char first) {
    if (first < 0xC0) {
        return 1;
    }
    return first < 0xE0 ? 2 : (first < 0xF0 ? 3 : 4);
}

// Where the text ends that no further byte can change. SentencePiece writes replacement characters for the bytes of a
// character that is not complete yet.
size_t settled_size(std::string_view text) {
    for (size_t back = 1; back <= std::min(kMostWaiting, text.size()); ++back) {
        const auto byte = static_cast<unsigned char>(text[text.size() - back]);
        if ((byte & 0xC0U) != 0x80U) {
            if (character_size(byte) > back) {
                return text.size() - back;
            }
            break;
        }
    }
    size_t end = text.size();
    for (size_t count = 0; count < kMostWaiting && text.substr(0, end).ends_with(kReplacementMark); ++count) {
        end -= kReplacementMark.size();
    }
    return end;
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::span<const int32_t> before)
    : tokenizer_(tokenizer), ids_(before.begin(), before.end()) {
    const std::string text = tokenizer_.decode(ids_, Special::without);
    given_ = text_size_ = text.size();
    if (!ids_.empty() && settled_size(text) == text.size()) {
        forget_what_is_settled(text, text.size() + 1);
    }
}

std::string TextStream::add(int32_t id) {
    ids_.push_back(id);
    if (tokenizer_.rewrites_text()) {
        return "";
    }
    const std::string text = tokenizer_.decode(ids_, Special::without);
    const size_t size_before = std::exchange(text_size_, text.size());
    const size_t end = settled_size(text);
    if (end < given_) {
        return "";
    }
    std::string certain = text.substr(given_, end - given_);
    given_ = end;
    if (end == text.size()) {
        forget_what_is_settled(text, size_before);
    }
    return certain;
}

// A rule for the begin of a text is used up by the first ids that have some, and no other rule looks further back than
// a character.
void TextStream::forget_what_is_settled(std::string_view text, size_t size_before) {
    if (tokenizer_.rewrites_text()) {
        return;
    }
    const size_t last_size = tokenizer_.decode(std::span(&ids_.back(), 1), Special::without).size();
    if (last_size > 0) {
        ids_ = {ids_.back()};
        given_ = text_size_ = last_size;
    } else if (!text.empty() && text.size() == size_before) {
        ids_.pop_back();  // no text: a special token
    }
}

std::string TextStream::rest() {
    const std::string text = tokenizer_.decode(std::exchange(ids_, {}), Special::without);
    return text.substr(std::min(std::exchange(given_, 0), text.size()));
}

TextEnd::TextEnd(std::vector<std::string> ends) : ends_(std::move(ends)) {
    std::erase(ends_, "");
}

std::string TextEnd::add(std::string_view text) {
    if (reached_) {
        return "";
    }
    held_ += text;
    size_t first = std::string::npos;
    for (const std::string& end : ends_) {
        first = std::min(first, held_.find(end));
    }
    reached_ = first != std::string::npos;
    std::string certain = held_.substr(0, reached_ ? first : held_.size() - possible_end());
    held_.erase(0, reached_ ? std::string::npos : certain.size());
    return certain;
}

// How many of the last bytes an end may begin with.
size_t TextEnd::possible_end() const {
    size_t longest = 0;
    for (const std::string& end : ends_) {
        for (size_t size = std::min(end.size() - 1, held_.size()); size > longest; --size) {
            if (std::string_view(held_).ends_with(std::string_view(end).substr(0, size))) {
                longest = size;
            }
        }
    }
    return longest;
}

std::string TextEnd::rest() {
    return std::exchange(held_, {});
}

}  // namespace accrue
