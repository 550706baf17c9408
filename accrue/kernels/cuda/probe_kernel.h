#pragma once

namespace accrue::cuda {

// Whether this program was built for that GPU.
[[nodiscard]] bool has_code_for(int gpu);

}  // namespace accrue::cuda
