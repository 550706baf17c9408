#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "accrue/base/error.h"
#include "accrue/data/tokenizers/text_stream.h"
#include "accrue/data/tokenizers/tokenizer.h"

namespace accrue::fuzz {

// Encodes and decodes a few texts, whole and id by id; an id outside the vocabulary would be read outside a model's embedding.
inline void use_tokenizer(const Tokenizer& tokenizer) {
    const auto use = [&](const std::vector<int32_t>& ids) {
        for (const int32_t id : ids) {
            if (id < 0 || id >= tokenizer.vocabulary()) {
                throw std::logic_error(cat("id ", id, " of a vocabulary of ", tokenizer.vocabulary()));
            }
            (void)tokenizer.token_text(id);
        }
        (void)tokenizer.decode(ids, Special::with);
        TextStream stream(tokenizer);
        std::string text;
        for (const int32_t id : ids) {
            text += stream.add(id);
        }
        if (text + stream.rest() != tokenizer.decode(ids, Special::without)) {
            throw std::logic_error("a text in pieces is not the whole text");
        }
    };
    for (const std::string_view text :
         {"", "ab abc  a1,\n\n 'll <s>abc</s>", "\xC3\xA9t\xC3\xA9 \xE2\x96\x81\xFF\xE2"}) {
        use(tokenizer.encode(text, Special::with));
        use(tokenizer.encode_plain(text));
    }
    const std::optional<int32_t> end = tokenizer.end_of_document();
    use(end ? std::vector<int32_t>{*end} : std::vector<int32_t>{});
}

}  // namespace accrue::fuzz
