#include "accrue/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accrue/kernels/cpu/rope.cpp"
#include <hwy/foreach_target.h>

#include "accrue/kernels/cpu/elementwise.h"
#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/cpu/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// Turns the pairs of one head by the angles of one position; direction is 1 or -1.
template <class T>
HWY_INLINE void turn_head(T* head, int64_t half, const float* angles, float direction) {
    const auto sign = hn::Set(Floats(), direction);
    for_lanes(half, [&](int64_t i, int64_t left) HWY_ATTR {
        const auto cosine = load(angles + i, left);
        const auto sine = hn::Mul(load(angles + half + i, left), sign);
        const auto x = load(head + i, left);
        const auto y = load(head + half + i, left);
        store(hn::NegMulAdd(y, sine, hn::Mul(x, cosine)), head + i, left);
        store(hn::MulAdd(y, cosine, hn::Mul(x, sine)), head + half + i, left);
    });
}

void turn(Pool& pool, AnyView heads, View<const int32_t> positions, View<const float> table, float direction) {
    const int64_t head_size = table.columns;
    with_type(heads, [&](auto typed) HWY_ATTR {
        for_ranges(pool, typed.rows, typed.columns, [&](int64_t first, int64_t last) HWY_ATTR {
            for (int64_t r = first; r < last; ++r) {
                const float* angles = table.row(positions.data[r]);
                for (int64_t column = 0; column < typed.columns; column += head_size) {
                    turn_head(typed.row(r) + column, head_size / 2, angles, direction);
                }
            }
        });
    });
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::cpu {

void rope(const Context& context, AnyView heads, View<const int32_t> positions, View<const float> table) {
    pick(context.set, N_SCALAR::turn, N_AVX2::turn, N_AVX3::turn)(context.pool, heads, positions, table, 1);
}

void rope_grad(const Context& context, AnyView d_heads, View<const int32_t> positions, View<const float> table) {
    pick(context.set, N_SCALAR::turn, N_AVX2::turn, N_AVX3::turn)(context.pool, d_heads, positions, table, -1);
}

}  // namespace accrue::cpu
#endif
