#include "tests/fuzz/parsers.h"

#include "accrue/model/config.h"
#include "accrue/model/parameters.h"

namespace accrue::fuzz {

// A model's config.json, and the list of parameters that such a model would have.
void run_model_config(std::string_view bytes) {
    (void)decoder_parameters(parse_model_config(bytes, "config.json", 8)).list.elements();
}

}  // namespace accrue::fuzz
