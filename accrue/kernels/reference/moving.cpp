#include <algorithm>

#include "accrue/kernels/reference/element.h"
#include "accrue/kernels/reference/reference_kernels.h"

namespace accrue {

void ReferenceKernels::cast(View<const float> input, const Dropout& dropout, AnyView output) {
    for (int64_t r = 0; r < output.rows; ++r) {
        for (int64_t c = 0; c < output.columns; ++c) {
            const double factor = dropout_factor(dropout, r, static_cast<uint64_t>(c));
            store(output, r, c, factor == 0 ? 0 : value(input, r, c) * factor);
        }
    }
}

void ReferenceKernels::fill_zero(std::span<std::byte> memory) {
    std::fill(memory.begin(), memory.end(), std::byte{0});
}

void ReferenceKernels::copy_in(std::span<const std::byte> host, std::span<std::byte> output) {
    std::copy(host.begin(), host.end(), output.begin());
}

void ReferenceKernels::copy_out(View<const float> values, std::span<float> host) {
    for (int64_t r = 0; r < values.rows; ++r) {
        std::copy_n(values.row(r), values.columns, host.begin() + r * values.columns);
    }
}

std::unique_ptr<Kernels> make_reference_kernels(Arena& arena) {
    return std::make_unique<ReferenceKernels>(arena);
}

}  // namespace accrue
