#include "accrue/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accrue/kernels/cpu/optimizer_8bit.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "accrue/kernels/cpu/elementwise.h"
#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/cpu/mean-inl.h"
#include "accrue/kernels/cpu/pieces.h"
#include "accrue/kernels/cpu/random-inl.h"
#include "accrue/kernels/moment_codes.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// Codes as floats; int8_t for first moments, uint8_t for second ones.
template <class Code>
HWY_INLINE FloatVector load_codes(const uint8_t* codes, int64_t left) {
    const hn::Rebind<int32_t, Floats> integers;
    const auto bytes = load_lanes(hn::Rebind<Code, Floats>(), reinterpret_cast<const Code*>(codes), left);
    return hn::ConvertTo(Floats(), hn::PromoteTo(integers, bytes));
}

template <class Code>
HWY_INLINE void store_codes(FloatVector codes, uint8_t* to, int64_t left) {
    const hn::Rebind<int32_t, Floats> integers;
    const hn::Rebind<Code, Floats> bytes;
    store_lanes(bytes, hn::DemoteTo(bytes, hn::ConvertTo(integers, codes)), reinterpret_cast<Code*>(to), left);
}

// The lanes of moment_codes.h's functions, operation by operation.
HWY_INLINE FloatVector decoded_first(FloatVector code, float scale) {
    return hn::Mul(hn::Mul(code, hn::Abs(code)), hn::Set(Floats(), scale / kFirstSteps));
}

HWY_INLINE FloatVector decoded_second(FloatVector code, float scale) {
    const auto root = hn::Mul(hn::Mul(code, code), hn::Set(Floats(), kSecondRoot));
    return hn::Mul(root, hn::Mul(root, hn::Set(Floats(), scale)));
}

// low, or low + 1 where chance lies below the way from low to the next code.
HWY_INLINE FloatVector rounded_by_chance(FloatVector low, FloatVector chance, FloatVector gap, FloatVector above) {
    const auto up = hn::Lt(hn::Mul(chance, gap), above);
    return hn::Add(low, hn::IfThenElseZero(up, hn::Set(Floats(), 1.0F)));
}

HWY_INLINE FloatVector encoded_first(FloatVector value, FloatVector scale, FloatVector chance) {
    const Floats d;
    const auto steps = hn::Mul(hn::Div(hn::Abs(value), scale), hn::Set(d, kFirstSteps));
    const auto low = hn::Floor(hn::Sqrt(steps));
    const auto gap = hn::Add(hn::Add(low, low), hn::Set(d, 1.0F));
    const auto code = rounded_by_chance(low, chance, gap, hn::Sub(steps, hn::Mul(low, low)));
    return hn::CopySign(hn::Min(code, hn::Set(d, kFirstCodes)), value);
}

HWY_INLINE FloatVector fourth_power(FloatVector x) {
    const auto square = hn::Mul(x, x);
    return hn::Mul(square, square);
}

HWY_INLINE FloatVector encoded_second(FloatVector value, FloatVector scale, FloatVector chance) {
    const Floats d;
    const auto one = hn::Set(d, 1.0F);
    const auto steps = hn::Mul(hn::Div(value, scale), hn::Set(d, kSecondSteps));
    const auto low = hn::Floor(hn::Sqrt(hn::Sqrt(steps)));
    const auto below = fourth_power(low);
    const auto gap = hn::Sub(fourth_power(hn::Add(low, one)), below);
    const auto code = hn::Min(rounded_by_chance(low, chance, gap, hn::Sub(steps, below)), hn::Set(d, kSecondCodes));
    return hn::IfThenElse(hn::Gt(value, hn::Zero(d)), hn::Max(code, one), code);
}

// 16 random bits as a number in (0, 1).
HWY_INLINE FloatVector chance_of(hn::Vec<hn::Rebind<uint32_t, Floats>> random) {
    const Floats d;
    const auto whole = hn::ConvertTo(d, hn::BitCast(hn::Rebind<int32_t, Floats>(), random));
    return hn::Mul(hn::Add(whole, hn::Set(d, 0.5F)), hn::Set(d, 0x1p-16F));
}

// One block of a moment between its codes.
struct MomentBlock {
    HWY_ALIGN float values[kMomentBlock + kLanes];
    FloatVector largest;

    // Not left to the compiler, which would make it for the wrong instruction set.
    HWY_INLINE MomentBlock() : largest(hn::Zero(Floats())) {}

    HWY_INLINE void keep(FloatVector value, int64_t i) {
        largest = hn::Max(largest, hn::Abs(value));
        hn::StoreU(value, Floats(), values + i);  // a tail's other lanes are 0, and there is room for them
    }
    [[nodiscard]] HWY_INLINE float scale() const { return hn::GetLane(hn::MaxOfLanes(Floats(), largest)); }
};

// What all values are divided by; a block of zeros becomes zeros by any number.
HWY_INLINE FloatVector divisor_of(float scale) {
    return hn::Set(Floats(), scale > 0 ? scale : 1.0F);
}

void store_first(const MomentBlock& block, int64_t first, int64_t count, const CodedMoments& moments) {
    const auto divisor = divisor_of(block.scale());
    moments.first.scales[first / kMomentBlock] = block.scale();
    for_lanes(count, [&](int64_t i, int64_t left) HWY_ATTR {
        const auto random = random_lanes(Floats(), moments.rounding_key, first + i);
        const auto chance = chance_of(hn::And(random, hn::Set(hn::Rebind<uint32_t, Floats>(), 0xffffU)));
        const auto code = encoded_first(hn::LoadU(Floats(), block.values + i), divisor, chance);
        store_codes<int8_t>(code, moments.first.codes + first + i, left);
    });
}

void store_second(const MomentBlock& block, int64_t first, int64_t count, const CodedMoments& moments) {
    const auto divisor = divisor_of(block.scale());
    moments.second.scales[first / kMomentBlock] = block.scale();
    for_lanes(count, [&](int64_t i, int64_t left) HWY_ATTR {
        const auto chance = chance_of(hn::ShiftRight<16>(random_lanes(Floats(), moments.rounding_key, first + i)));
        const auto code = encoded_second(hn::LoadU(Floats(), block.values + i), divisor, chance);
        store_codes<uint8_t>(code, moments.second.codes + first + i, left);
    });
}

// Calls body(first, count) for each block of a tensor; threads share out whole blocks.
template <class Body>
void for_blocks(Pool& pool, int64_t elements, const Body& body) {
    for_ranges(pool, moment_blocks(elements), kMomentBlock, [&](int64_t from, int64_t to) HWY_ATTR {
        for (int64_t block = from; block < to; ++block) {
            const int64_t first = block * kMomentBlock;
            body(first, std::min(kMomentBlock, elements - first));
        }
    });
}

void adamw_8bit(Pool& pool, const MeanView& gradient, const AdamWSettings& settings, View<float> weights,
                const CodedMoments& moments, AnyView copy) {
    const Floats d;
    with_sums(gradient, [&](const auto* sums) HWY_ATTR {
        for_blocks(pool, gradient.elements, [&](int64_t first, int64_t count) HWY_ATTR {
            const float scale1 = moments.first.scales[first / kMomentBlock];
            const float scale2 = moments.second.scales[first / kMomentBlock];
            const auto share1 = hn::Set(d, 1 - settings.beta1);
            const auto share2 = hn::Set(d, 1 - settings.beta2);
            const auto epsilon = hn::Set(d, settings.epsilon);
            MomentBlock new_first;
            MomentBlock new_second;
            for_lanes(count, [&](int64_t offset, int64_t left) HWY_ATTR {
                const int64_t i = first + offset;
                const auto g = gradient_lanes(sums + i, gradient.factor, left);
                const auto old_m = decoded_first(load_codes<int8_t>(moments.first.codes + i, left), scale1);
                const auto old_v = decoded_second(load_codes<uint8_t>(moments.second.codes + i, left), scale2);
                const auto weight = load(weights.data + i, left);
                const auto m = hn::MulAdd(share1, hn::Sub(g, old_m), old_m);
                const auto v = hn::MulAdd(share2, hn::Sub(hn::Mul(g, g), old_v), old_v);
                const auto root = hn::Add(hn::Sqrt(hn::Mul(v, hn::Set(d, settings.correction2))), epsilon);
                const auto ratio = hn::Div(hn::Mul(m, hn::Set(d, settings.correction1)), root);
                const auto step = hn::MulAdd(hn::Set(d, settings.decay), weight, ratio);
                new_first.keep(m, offset);
                new_second.keep(hn::Min(v, hn::Set(d, kLargestSecond)), offset);
                store_weights(hn::NegMulAdd(hn::Set(d, settings.rate), step, weight), i, left, weights.data, copy);
            });
            store_first(new_first, first, count, moments);
            store_second(new_second, first, count, moments);
        });
    });
}

void sgd_8bit(Pool& pool, const MeanView& gradient, const SgdSettings& settings, View<float> weights,
              const CodedMoments& moments, AnyView copy) {
    const Floats d;
    const bool nesterov = settings.kind == SgdSettings::Kind::nesterov;
    with_sums(gradient, [&](const auto* sums) HWY_ATTR {
        for_blocks(pool, gradient.elements, [&](int64_t first, int64_t count) HWY_ATTR {
            const float scale = moments.first.scales[first / kMomentBlock];
            const auto momentum = hn::Set(d, settings.momentum);
            MomentBlock velocity;
            for_lanes(count, [&](int64_t offset, int64_t left) HWY_ATTR {
                const int64_t i = first + offset;
                const auto weight = load(weights.data + i, left);
                const auto slope = gradient_lanes(sums + i, gradient.factor, left);
                const auto g = hn::MulAdd(hn::Set(d, settings.decay), weight, slope);
                const auto old_b = decoded_first(load_codes<int8_t>(moments.first.codes + i, left), scale);
                const auto b = hn::MulAdd(momentum, old_b, g);
                const auto step = nesterov ? hn::MulAdd(momentum, b, g) : b;
                velocity.keep(b, offset);
                store_weights(hn::NegMulAdd(hn::Set(d, settings.rate), step, weight), i, left, weights.data, copy);
            });
            store_first(velocity, first, count, moments);
        });
    });
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::cpu {

void adamw_8bit(const Context& context, const MeanView& gradient, const AdamWSettings& settings, View<float> weights,
                const CodedMoments& moments, AnyView copy) {
    pick(context.set, N_SCALAR::adamw_8bit, N_AVX2::adamw_8bit, N_AVX3::adamw_8bit)(context.pool, gradient, settings,
                                                                                    weights, moments, copy);
}

void sgd_8bit(const Context& context, const MeanView& gradient, const SgdSettings& settings, View<float> weights,
              const CodedMoments& moments, AnyView copy) {
    pick(context.set, N_SCALAR::sgd_8bit, N_AVX2::sgd_8bit, N_AVX3::sgd_8bit)(context.pool, gradient, settings, weights,
                                                                              moments, copy);
}

}  // namespace accrue::cpu
#endif
