#pragma once

#include "accrue/kernels/cuda/device.cuh"
#include "accrue/kernels/cuda/four.cuh"

// What all updates of weights share. The arithmetic is that of cpu/optimizer.cpp, operation by operation, fused where that
// one fuses: a CPU with fused multiply-adds (AVX2 and later) and a GPU make the same bits of the same sums, so that moments
// may be updated by either.
namespace accrue::cuda {

// An element of a mean gradient in double, by how its sum lies in memory: exact, fp32, bf16 (its bits) or a KahanBf16 (the
// sum below, what it has lost above).
__device__ inline double mean_of(int64_t sum, double factor) {
    return __ll2double_rn(sum) * factor;
}
__device__ inline double mean_of(float sum, double factor) {
    return static_cast<double>(sum) * factor;
}
__device__ inline double mean_of(uint16_t bits, double factor) {
    return static_cast<double>(__uint_as_float(static_cast<uint32_t>(bits) << 16)) * factor;
}
__device__ inline double mean_of(uint32_t pair, double factor) {
    const double sum = __uint_as_float(pair << 16);
    const double lost = __uint_as_float(pair & 0xffff0000U);
    return (sum + lost) * factor;
}

// Calls with the element's type: call(TypeTag<int64_t>()).
template <class Call>
__host__ __device__ void with_sum_element(SumKind kind, const Call& call) {
    switch (kind) {
        case SumKind::exact:
            return call(TypeTag<int64_t>());
        case SumKind::fp32:
            return call(TypeTag<float>());
        case SumKind::bf16_kahan:
            return call(TypeTag<uint32_t>());
        default:
            return call(TypeTag<uint16_t>());
    }
}

[[nodiscard]] inline bool fits_four(const MeanView& gradient) {
    bool fits = false;
    with_sum_element(gradient.kind, [&](auto tag) {
        fits = fits_four(static_cast<const typename decltype(tag)::type*>(gradient.data));
    });
    return fits;
}

// The rounded weights, where somebody wants them.
struct WeightCopy {
    void* data = nullptr;
    int64_t dtype = 0;
};
[[nodiscard]] inline WeightCopy copy_of(const AnyView& copy) {
    return {.data = copy.data, .dtype = static_cast<int64_t>(copy.dtype)};
}
[[nodiscard]] inline bool fits_four(const AnyView& copy) {
    bool fits = false;
    with_type(copy.dtype, [&](auto tag) { fits = fits_four(static_cast<typename decltype(tag)::type*>(copy.data)); });
    return fits;
}

template <class T>
__device__ void store_rounded(T* to, const Four<float>& values, int64_t left, bool is_aligned) {
    Four<T> rounded;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        rounded.at[e] = from_float<T>(values.at[e]);
    }
    store_four<Reuse::soon>(to, rounded, left, is_aligned);
}

// Writes weights and their copy from element `first` on.
__device__ inline void store_weights(float* weights, const WeightCopy& copy, int64_t first, const Four<float>& values,
                                     int64_t left, bool is_aligned) {
    store_four<Reuse::none>(weights + first, values, left, is_aligned);
    if (copy.data == nullptr) {
        return;
    }
    if (copy.dtype == static_cast<int64_t>(DType::bf16)) {
        store_rounded(static_cast<bf16*>(copy.data) + first, values, left, is_aligned);
    } else if (copy.dtype == static_cast<int64_t>(DType::fp16)) {
        store_rounded(static_cast<fp16*>(copy.data) + first, values, left, is_aligned);
    } else {
        store_rounded(static_cast<float*>(copy.data) + first, values, left, is_aligned);
    }
}

// What changes from step to step.
struct AdamWRule {
    double factor = 1;
    float rate = 0;
    float share1 = 0;  // of the new gradient in a moment
    float share2 = 0;
    float epsilon = 0;
    float decay = 0;
    float correction1 = 1;
    float correction2 = 1;
};
[[nodiscard]] inline AdamWRule rule_of(const MeanView& gradient, const AdamWSettings& settings) {
    return {.factor = gradient.factor,
            .rate = settings.rate,
            .share1 = 1 - settings.beta1,
            .share2 = 1 - settings.beta2,
            .epsilon = settings.epsilon,
            .decay = settings.decay,
            .correction1 = settings.correction1,
            .correction2 = settings.correction2};
}

// One element's update.
__device__ inline void update_adamw(const AdamWRule& rule, float g, float& m, float& v, float& weight) {
    m = fmaf(rule.share1, g - m, m);
    v = fmaf(rule.share2, g * g - v, v);
    const float root = __fsqrt_rn(v * rule.correction2) + rule.epsilon;
    const float step = fmaf(rule.decay, weight, __fdiv_rn(m * rule.correction1, root));
    weight = fmaf(-rule.rate, step, weight);
}

struct SgdRule {
    double factor = 1;
    float rate = 0;
    float momentum = 0;
    float decay = 0;
    int32_t is_nesterov = 0;
};
[[nodiscard]] inline SgdRule rule_of(const MeanView& gradient, const SgdSettings& settings) {
    return {.factor = gradient.factor,
            .rate = settings.rate,
            .momentum = settings.momentum,
            .decay = settings.decay,
            .is_nesterov = settings.kind == SgdSettings::Kind::nesterov ? 1 : 0};
}

// One element's update; `slope` is the mean gradient.
__device__ inline void update_sgd(const SgdRule& rule, bool has_velocity, float slope, float& velocity, float& weight) {
    const float g = fmaf(rule.decay, weight, slope);
    velocity = has_velocity ? fmaf(rule.momentum, velocity, g) : g;
    const float step = rule.is_nesterov != 0 ? fmaf(rule.momentum, velocity, g) : velocity;
    weight = fmaf(-rule.rate, step, weight);
}

}  // namespace accrue::cuda
