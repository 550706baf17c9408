#pragma once

namespace accrue::cuda {

// A kernel as the runtime takes it. The simulated GPU of the tests has a file in the place of this one.
template <class Args>
[[nodiscard]] const void* entry_of(void (*kernel)(Args)) {
    return reinterpret_cast<const void*>(kernel);
}

}  // namespace accrue::cuda
