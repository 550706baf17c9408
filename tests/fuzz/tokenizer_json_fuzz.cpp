#include "tests/fuzz/parsers.h"
#include "tests/fuzz/use_tokenizer.h"

#include "accrue/data/tokenizers/tokenizer_files.h"

namespace accrue::fuzz {

void run_tokenizer_json(std::string_view bytes) {
    use_tokenizer(*tokenizer_of_json(bytes, "tokenizer.json"));
}

}  // namespace accrue::fuzz
