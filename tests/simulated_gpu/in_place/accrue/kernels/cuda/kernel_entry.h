#pragma once

// In the place of kernels/cuda/kernel_entry.h on the simulated GPU, which must know how to call a kernel with the bytes of its
// arguments.
#include <cstddef>
#include <cstring>

namespace accrue::simulated {
void remember(const void* kernel, void (*call)(const void* kernel, const void* args), size_t argument_bytes);
}

namespace accrue::cuda {

template <class Args>
[[nodiscard]] const void* entry_of(void (*kernel)(Args)) {
    const auto* const entry = reinterpret_cast<const void*>(kernel);
    simulated::remember(
        entry,
        [](const void* remembered, const void* bytes) {
            Args args;
            std::memcpy(static_cast<void*>(&args), bytes, sizeof(args));
            reinterpret_cast<void (*)(Args)>(const_cast<void*>(remembered))(args);
        },
        sizeof(Args));
    return entry;
}

}  // namespace accrue::cuda
