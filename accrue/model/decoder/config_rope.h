#pragma once

#include "accrue/model/config_fields.h"
#include "accrue/model/decoder/config.h"

namespace accrue {

// Rotary positions in today's form (rope_parameters with rope_theta inside) or the older one (rope_theta beside
// rope_scaling).
[[nodiscard]] RopeConfig read_rope(const ConfigFields& fields);

}  // namespace accrue
