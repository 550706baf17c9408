#include "tests/fuzz/parsers.h"
#include "tests/fuzz/use_tokenizer.h"

#include "accrue/base/error.h"
#include "accrue/data/tokenizers/sentencepiece_model.h"
#include "accrue/data/tokenizers/tokenizer_files.h"

namespace accrue::fuzz {

// Our own reader first, also of files that the SentencePiece library refuses before it comes to that.
void run_sentencepiece(std::string_view bytes) {
    try {
        (void)read_sentencepiece_model(bytes, "tokenizer.model");
        (void)without_prefix(bytes);
    } catch (const Error&) {
    }
    use_tokenizer(*tokenizer_of_sentencepiece(bytes, "tokenizer.model"));
}

}  // namespace accrue::fuzz
