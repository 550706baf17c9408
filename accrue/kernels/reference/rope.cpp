#include "accrue/kernels/reference/element.h"
#include "accrue/kernels/reference/reference_kernels.h"

namespace accrue {
namespace {

// Turns every pair by its angle (direction 1) or by its negative (direction -1).
void turn(AnyView heads, View<const int32_t> positions, View<const float> table, double direction) {
    const int64_t half = table.columns / 2;
    for (int64_t r = 0; r < heads.rows; ++r) {
        const float* cosines = table.row(positions.data[r]);
        const float* sines = cosines + half;
        for (int64_t first = 0; first < heads.columns; first += table.columns) {
            for (int64_t i = 0; i < half; ++i) {
                const double x = value(heads, r, first + i);
                const double y = value(heads, r, first + half + i);
                const double cosine = cosines[i];
                const double sine = direction * sines[i];
                store(heads, r, first + i, x * cosine - y * sine);
                store(heads, r, first + half + i, y * cosine + x * sine);
            }
        }
    }
}

}  // namespace

void ReferenceKernels::rope(AnyView heads, View<const int32_t> positions, View<const float> table) {
    turn(heads, positions, table, 1);
}

void ReferenceKernels::rope_grad(AnyView d_heads, View<const int32_t> positions, View<const float> table) {
    turn(d_heads, positions, table, -1);
}

}  // namespace accrue
