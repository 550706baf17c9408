#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace accrue {

// A token that is found in the text itself, before the model sees it.
struct AddedToken {
    int32_t id = -1;
    std::string content;
    // Only where no word character stands beside it.
    bool single_word = false;
    // Takes the white space to its left, or to its right, with it.
    bool left_strip = false;
    bool right_strip = false;
    // Looked for in the normalized text, not in the text as it was given.
    bool normalized = false;
    // No text: left out when decoding without special tokens.
    bool special = false;
};

// Finds added tokens: leftmost first, and of those the longest.
class AddedTokenFinder {
public:
    AddedTokenFinder() = default;
    explicit AddedTokenFinder(std::vector<AddedToken> tokens);

    // A part of the text: a token, or text between tokens (id = -1).
    struct Segment {
        std::string_view text;
        int32_t id = -1;
    };
    [[nodiscard]] std::vector<Segment> split(std::string_view text) const;

private:
    // The longest token that begins at a place, or null.
    [[nodiscard]] const AddedToken* token_at(std::string_view text, size_t place) const;

    // Sorted by content.
    std::vector<AddedToken> tokens_;
    // Can a token begin with this byte?
    std::vector<bool> begins_ = std::vector<bool>(256);
};

}  // namespace accrue
