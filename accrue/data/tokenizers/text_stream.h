#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/data/tokenizers/tokenizer.h"

namespace accrue {

// Ids become text one after another: what add() and rest() give back is, put together, what decode() makes of all ids.
// Tokens alone are not enough for that: rules for the begin of a text must not see each token as a begin, and a
// character may be spread over several of them. Needs the tokenizer to stay.
class TextStream {
public:
    // `before` are ids whose text is known already, such as those of a prompt: the stream goes on behind them.
    explicit TextStream(const Tokenizer& tokenizer, std::span<const int32_t> before = {});

    // The text that is certain with this id and was not before: whole characters only, beside bytes that are none.
    [[nodiscard]] std::string add(int32_t id);
    // What was held back, once there are no more ids: half a character, perhaps. The stream is used up.
    [[nodiscard]] std::string rest();

private:
    void forget_what_is_settled(std::string_view text, size_t size_before);

    const Tokenizer& tokenizer_;
    // Only the last ids, as many as the next one needs beside it.
    std::vector<int32_t> ids_;
    // How much of their text was given.
    size_t given_ = 0;
    size_t text_size_ = 0;
};

// Lets text through up to the first of some texts that end it, wherever the pieces are cut.
class TextEnd {
public:
    // Empty ends are none.
    explicit TextEnd(std::vector<std::string> ends);

    // What certainly stands before an end.
    [[nodiscard]] std::string add(std::string_view text);
    [[nodiscard]] bool reached() const { return reached_; }
    // What might have become an end, once there is no more text.
    [[nodiscard]] std::string rest();

private:
    [[nodiscard]] size_t possible_end() const;

    std::vector<std::string> ends_;
    std::string held_;
    bool reached_ = false;
};

}  // namespace accrue
