#include "tests/fuzz/parsers.h"
#include "tests/fuzz/use_tokenizer.h"

#include "accrue/data/tokenizers/tokenizer_files.h"

namespace accrue::fuzz {

void run_tokenizer_ranks(std::string_view bytes) {
    if (looks_like_ranks(bytes)) {
        use_tokenizer(*tokenizer_of_ranks(bytes, "tokenizer.model"));
    }
}

}  // namespace accrue::fuzz
