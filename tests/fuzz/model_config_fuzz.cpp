#include "tests/fuzz/parsers.h"

#include "accrue/model/families.h"

namespace accrue::fuzz {

// A model's config.json, and the list of parameters that such a model would have.
void run_model_config(std::string_view bytes) {
    (void)known_families().parse(bytes, "config.json", 8)->parameters().elements();
}

}  // namespace accrue::fuzz
