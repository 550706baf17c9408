#include <algorithm>

#include "accrue/kernels/reference/compute.h"
#include "accrue/kernels/reference/element.h"

namespace accrue::reference {

void compute(const op::Cast& call) {
    for (int64_t r = 0; r < call.output.rows; ++r) {
        for (int64_t c = 0; c < call.output.columns; ++c) {
            const double factor = dropout_factor(call.dropout, r, static_cast<uint64_t>(c));
            store(call.output, r, c, factor == 0 ? 0 : value(call.input, r, c) * factor);
        }
    }
}

void compute(const op::FillZero& call) {
    std::fill(call.memory.begin(), call.memory.end(), std::byte{0});
}

void compute(const op::Upload& call) {
    std::copy(call.host.begin(), call.host.end(), call.device.begin());
}

void compute(const op::Download& call) {
    std::copy(call.device.begin(), call.device.end(), call.host.begin());
}

void compute(const op::AddGradient& call) {
    for (int64_t r = 0; r < call.values.rows; ++r) {
        for (int64_t c = 0; c < call.values.columns; ++c) {
            add(call.sum, r, c, value(call.values, r, c));
        }
    }
}

void compute(const op::AddSums& call) {
    for (int64_t i = 0; i < call.sums.columns; ++i) {
        // Unsigned, so that it wraps.
        call.sums.data[i] =
            static_cast<int64_t>(static_cast<uint64_t>(call.sums.data[i]) + static_cast<uint64_t>(call.others.data[i]));
    }
}

void compute(const op::CompleteSums&) {}

}  // namespace accrue::reference
