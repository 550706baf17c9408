#include "accrue/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accrue/kernels/cpu/optimizer.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "accrue/kernels/cpu/elementwise.h"
#include "accrue/kernels/cpu/elementwise_plan.h"
#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/cpu/mean-inl.h"
#include "accrue/kernels/cpu/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

template <class Sum>
double block_squares(const Sum* sums, double factor, int64_t count) {
    const Doubles d;
    auto even = hn::Zero(d);
    auto odd = hn::Zero(d);
    int64_t i = 0;
    for (; i + 2 * kDoubleLanes <= count; i += 2 * kDoubleLanes) {
        const auto x = mean_lanes(sums + i, factor, kDoubleLanes);
        const auto y = mean_lanes(sums + i + kDoubleLanes, factor, kDoubleLanes);
        even = hn::MulAdd(x, x, even);
        odd = hn::MulAdd(y, y, odd);
    }
    for (; i < count; i += kDoubleLanes) {
        const auto x = mean_lanes(sums + i, factor, count - i);
        even = hn::MulAdd(x, x, even);
    }
    return hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
}

void squared_norm_blocks(Pool& pool, const MeanView& gradient, double* squares) {
    with_sums(gradient, [&](const auto* sums) HWY_ATTR {
        for_ranges(pool, norm_blocks(gradient.elements), kNormBlockElements, [&](int64_t first, int64_t last) HWY_ATTR {
            for (int64_t block = first; block < last; ++block) {
                const int64_t place = block * kNormBlockElements;
                squares[block] = block_squares(sums + place, gradient.factor,
                                               std::min(kNormBlockElements, gradient.elements - place));
            }
        });
    });
}

void adamw(Pool& pool, const MeanView& gradient, const AdamWSettings& settings, View<float> weights,
           View<float> first_moment, View<float> second_moment, AnyView copy) {
    const Floats d;
    with_sums(gradient, [&](const auto* sums) HWY_ATTR {
        for_pieces(pool, 1, gradient.elements, [&](int64_t, int64_t first, int64_t count) HWY_ATTR {
            const auto share1 = hn::Set(d, 1 - settings.beta1);
            const auto share2 = hn::Set(d, 1 - settings.beta2);
            const auto correction1 = hn::Set(d, settings.correction1);
            const auto correction2 = hn::Set(d, settings.correction2);
            const auto epsilon = hn::Set(d, settings.epsilon);
            const auto decay = hn::Set(d, settings.decay);
            const auto rate = hn::Set(d, settings.rate);
            for_lanes(count, [&](int64_t offset, int64_t left) HWY_ATTR {
                const int64_t i = first + offset;
                const auto g = gradient_lanes(sums + i, gradient.factor, left);
                const auto old_m = load(first_moment.data + i, left);
                const auto old_v = load(second_moment.data + i, left);
                const auto weight = load(weights.data + i, left);
                const auto m = hn::MulAdd(share1, hn::Sub(g, old_m), old_m);
                const auto v = hn::MulAdd(share2, hn::Sub(hn::Mul(g, g), old_v), old_v);
                const auto root = hn::Add(hn::Sqrt(hn::Mul(v, correction2)), epsilon);
                const auto step = hn::MulAdd(decay, weight, hn::Div(hn::Mul(m, correction1), root));
                store(m, first_moment.data + i, left);
                store(v, second_moment.data + i, left);
                store_weights(hn::NegMulAdd(rate, step, weight), i, left, weights.data, copy);
            });
        });
    });
}

void sgd(Pool& pool, const MeanView& gradient, const SgdSettings& settings, View<float> weights, View<float> velocity,
         AnyView copy) {
    const Floats d;
    const bool nesterov = settings.kind == SgdSettings::Kind::nesterov;
    with_sums(gradient, [&](const auto* sums) HWY_ATTR {
        for_pieces(pool, 1, gradient.elements, [&](int64_t, int64_t first, int64_t count) HWY_ATTR {
            const auto momentum = hn::Set(d, settings.momentum);
            const auto decay = hn::Set(d, settings.decay);
            const auto rate = hn::Set(d, settings.rate);
            for_lanes(count, [&](int64_t offset, int64_t left) HWY_ATTR {
                const int64_t i = first + offset;
                const auto weight = load(weights.data + i, left);
                const auto g = hn::MulAdd(decay, weight, gradient_lanes(sums + i, gradient.factor, left));
                auto b = g;
                if (!velocity.empty()) {
                    b = hn::MulAdd(momentum, load(velocity.data + i, left), g);
                    store(b, velocity.data + i, left);
                }
                const auto step = nesterov ? hn::MulAdd(momentum, b, g) : b;
                store_weights(hn::NegMulAdd(rate, step, weight), i, left, weights.data, copy);
            });
        });
    });
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::cpu {

double squared_norm(const Context& context, const MeanView& gradient) {
    const Arena::Block scratch = context.arena.take(squared_norm_workspace_bytes(gradient.elements));
    auto* squares = reinterpret_cast<double*>(scratch.data());
    pick(context.set, N_SCALAR::squared_norm_blocks, N_AVX2::squared_norm_blocks, N_AVX3::squared_norm_blocks)(
        context.pool, gradient, squares);
    double sum = 0;
    for (int64_t block = 0; block < norm_blocks(gradient.elements); ++block) {
        sum += squares[block];
    }
    return sum;
}

void adamw(const Context& context, const MeanView& gradient, const AdamWSettings& settings, View<float> weights,
           View<float> first_moment, View<float> second_moment, AnyView copy) {
    pick(context.set, N_SCALAR::adamw, N_AVX2::adamw, N_AVX3::adamw)(context.pool, gradient, settings, weights,
                                                                     first_moment, second_moment, copy);
}

void sgd(const Context& context, const MeanView& gradient, const SgdSettings& settings, View<float> weights,
         View<float> velocity, AnyView copy) {
    pick(context.set, N_SCALAR::sgd, N_AVX2::sgd, N_AVX3::sgd)(context.pool, gradient, settings, weights, velocity,
                                                               copy);
}

}  // namespace accrue::cpu
#endif
