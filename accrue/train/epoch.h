#pragma once

#include <string>

#include "accrue/data/samples/dataset.h"
#include "accrue/train/settings.h"

namespace accrue {

// An error if windows that the samples do not fill are dropped (window.last) and the data does not fill a single one.
void check_epoch(const Settings::Window& settings, const Dataset& data);

// The windows that the data makes of window.samples or window.tokens, in words: "the data has 157 samples: each epoch is 2
// windows of 64 and a last one of 29". Empty for windows in tokens of more data than can be counted at once.
[[nodiscard]] std::string epoch_text(const Settings& settings, const Dataset& data);

}  // namespace accrue
