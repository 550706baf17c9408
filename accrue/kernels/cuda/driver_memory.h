#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace accrue::cuda {

// "580.65.06"; nothing where the driver's library does not tell.
[[nodiscard]] std::optional<std::string> driver_version();

// How much of a GPU's memory all processes together use now, as nvidia-smi shows it; nothing where the driver's library does
// not tell. Asking starts nothing on the GPU.
[[nodiscard]] std::optional<int64_t> used_bytes_of_gpu(int number);
// And how much of it this process; nothing where the driver's library does not tell.
[[nodiscard]] std::optional<int64_t> used_bytes_of_process(int number);

}  // namespace accrue::cuda
