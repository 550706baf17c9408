#include "accrue/kernels/reference/compute.h"
#include "accrue/kernels/reference/element.h"

namespace accrue::reference {
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

void compute(const op::Rope& call) {
    turn(call.heads, call.positions, call.table, 1);
}

void compute(const op::RopeGrad& call) {
    turn(call.d_heads, call.positions, call.table, -1);
}

}  // namespace accrue::reference
