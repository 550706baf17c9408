#pragma once

#include <cstdint>

#include "accrue/dist/exchange_cost.h"
#include "accrue/dist/range_keepers.h"
#include "accrue/model/model_spec.h"
#include "accrue/train/settings.h"

namespace accrue {

// How so many workers share the state of a run with these settings.
[[nodiscard]] StateSharing sharing_of(const Settings& settings, int64_t workers);

// What an exchange costs so many of them, of sums and of the new weights that follow.
[[nodiscard]] ExchangeCost exchange_of(const Settings& settings, const ModelSpec& model, int64_t workers);
// The same where it is known how they share it; those who do not are `workers`.
[[nodiscard]] ExchangeCost exchange_of(const Settings& settings, const ModelSpec& model, const StateSharing& sharing,
                                       int64_t workers);

}  // namespace accrue
