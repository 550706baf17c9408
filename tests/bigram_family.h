#pragma once

#include "accrue/model/families.h"

namespace accrue::testing {

// A model that is no transformer: a word's score is what the word before it says, and what its place says. Two tables, no
// product, no block to recompute, and no text from it. Its config.json has vocab_size and places.
[[nodiscard]] ModelFamily bigram_family();

}  // namespace accrue::testing
