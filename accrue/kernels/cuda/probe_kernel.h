#pragma once

namespace accrue::cuda {

// Whether this program was built for that GPU.
[[nodiscard]] bool has_code_for(int gpu);

// The GPUs that code was built for, "sm_80, sm_90", as CMake was told.
[[nodiscard]] const char* architectures_with_code();

}  // namespace accrue::cuda
