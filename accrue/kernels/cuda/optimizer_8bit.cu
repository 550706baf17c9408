#include "accrue/kernels/cuda/context.h"
#include "accrue/kernels/cuda/update.cuh"
#include "accrue/kernels/moment_codes.h"

// Updates with moments in 8 bits: a warp has a block of elements that share a scale, four for each lane. The arithmetic is
// that of moment_codes.h and cpu/optimizer_8bit.cpp.
namespace accrue::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlocksTogether = kThreads / 32;
static_assert(kMomentBlock == 4 * 32);

__device__ float decoded_first(uint8_t code, float scale) {
    const auto root = static_cast<float>(static_cast<int8_t>(code));
    return root * fabsf(root) * __fdiv_rn(scale, kFirstSteps);
}

__device__ float decoded_second(uint8_t code, float scale) {
    const float root = static_cast<float>(code) * static_cast<float>(code) * kSecondRoot;
    return root * (root * scale);
}

__device__ float chance_of(uint32_t bits) {
    return (static_cast<float>(bits) + 0.5F) * 0x1p-16F;
}

struct FirstCode {
    static __device__ float decoded(uint8_t code, float scale) { return decoded_first(code, scale); }
    static __device__ uint8_t encoded(float value, float scale, uint32_t random) {
        const float steps = __fdiv_rn(fabsf(value), scale) * kFirstSteps;
        const float low = floorf(__fsqrt_rn(steps));
        const bool up = chance_of(random & 0xffffU) * (low + low + 1) < steps - low * low;
        const float code = copysignf(fminf(low + (up ? 1.0F : 0.0F), kFirstCodes), value);
        return static_cast<uint8_t>(static_cast<int8_t>(static_cast<int>(code)));
    }
};

struct SecondCode {
    static __device__ float fourth(float x) { return x * x * (x * x); }
    static __device__ float decoded(uint8_t code, float scale) { return decoded_second(code, scale); }
    static __device__ uint8_t encoded(float value, float scale, uint32_t random) {
        const float steps = __fdiv_rn(value, scale) * kSecondSteps;
        const float low = floorf(__fsqrt_rn(__fsqrt_rn(steps)));
        const bool up = chance_of(random >> 16) * (fourth(low + 1) - fourth(low)) < steps - fourth(low);
        const float code = fminf(low + (up ? 1.0F : 0.0F), kSecondCodes);
        return static_cast<uint8_t>(static_cast<int>(value > 0 ? fmaxf(code, 1.0F) : code));
    }
};

// The elements of one lane: `left` of the tensor's are there from `first` on, less than four or none at its end.
struct LanePlace {
    int64_t first = 0;
    int64_t left = 0;
    bool is_aligned = false;
};

template <class Code>
__device__ Four<float> load_moments(const CodedView& moment, const LanePlace& place) {
    const Four<uint8_t> codes =
        load_four<Reuse::none>(static_cast<const uint8_t*>(moment.codes) + place.first, place.left, place.is_aligned);
    const float scale = moment.scales[place.first / kMomentBlock];
    Four<float> values;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        values.at[e] = e < place.left ? Code::decoded(codes.at[e], scale) : 0.0F;
    }
    return values;
}

// All lanes of the block's warp call it. A NaN does not count, as in the reference.
__device__ float largest_of_block(const Four<float>& values, const LanePlace& place) {
    float largest = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        largest = fmaxf(largest, e < place.left ? fabsf(values.at[e]) : 0.0F);
    }
    // Floats that are not negative have the order of their bits.
    return __uint_as_float(__reduce_max_sync(0xffffffffU, __float_as_uint(largest)));
}

template <class Code>
__device__ void store_moments(const CodedView& moment, const LanePlace& place, uint64_t rounding_key,
                              const Four<float>& values) {
    const float scale = largest_of_block(values, place);
    if (threadIdx.x % 32 == 0) {
        moment.scales[place.first / kMomentBlock] = scale;
    }
    Four<uint8_t> codes{};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        const uint32_t random = random_bits(rounding_key, static_cast<uint64_t>(place.first + e));
        codes.at[e] = scale > 0 ? Code::encoded(values.at[e], scale, random) : uint8_t{0};
    }
    store_four<Reuse::none>(moment.codes + place.first, codes, place.left, place.is_aligned);
}

template <class Sum>
__device__ Four<float> load_gradients(const void* sums, double factor, const LanePlace& place) {
    const Four<Sum> four =
        load_four<Reuse::none>(static_cast<const Sum*>(sums) + place.first, place.left, place.is_aligned);
    Four<float> gradients;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        gradients.at[e] = __double2float_rn(mean_of(four.at[e], factor));
    }
    return gradients;
}

// What changes from step to step: the update's numbers, and the key of what rounds by chance.
template <class Rule>
struct CodedRule {
    Rule rule;
    uint64_t rounding_key = 0;
};

template <class Rule>
struct UpdateArgs {
    const void* sums = nullptr;
    float* weights = nullptr;
    CodedView first;
    CodedView second;
    WeightCopy copy;
    int64_t elements = 0;
    int64_t is_aligned = 0;
    const CodedRule<Rule>* rule = nullptr;
};

// Nothing of a warp beyond the last block is there, so it has nothing to do.
template <class Rule>
__device__ LanePlace lane_place(const UpdateArgs<Rule>& args) {
    const int64_t block = blockIdx.x * kBlocksTogether + threadIdx.x / 32;
    const int64_t first = block * kMomentBlock + threadIdx.x % 32 * 4;
    return {.first = first, .left = args.elements - first, .is_aligned = args.is_aligned != 0};
}
template <class Rule>
__device__ bool is_beyond(const UpdateArgs<Rule>& args) {
    return (blockIdx.x * kBlocksTogether + threadIdx.x / 32) * kMomentBlock >= args.elements;
}

template <class Sum>
__global__ void __launch_bounds__(kThreads) adamw_8bit_kernel(UpdateArgs<AdamWRule> args) {
    if (is_beyond(args)) {
        return;
    }
    const auto [rule, rounding_key] = *args.rule;
    const LanePlace place = lane_place(args);
    const Four<float> g = load_gradients<Sum>(args.sums, rule.factor, place);
    Four<float> m = load_moments<FirstCode>(args.first, place);
    Four<float> v = load_moments<SecondCode>(args.second, place);
    Four<float> weights =
        load_four<Reuse::none>(static_cast<const float*>(args.weights) + place.first, place.left, place.is_aligned);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        update_adamw(rule, g.at[e], m.at[e], v.at[e], weights.at[e]);
        v.at[e] = fminf(v.at[e], kLargestSecond);
    }
    __syncwarp();  // nobody writes a scale before all have read it
    store_moments<FirstCode>(args.first, place, rounding_key, m);
    store_moments<SecondCode>(args.second, place, rounding_key, v);
    store_weights(args.weights, args.copy, place.first, weights, place.left, place.is_aligned);
}

template <class Sum>
__global__ void __launch_bounds__(kThreads) sgd_8bit_kernel(UpdateArgs<SgdRule> args) {
    if (is_beyond(args)) {
        return;
    }
    const auto [rule, rounding_key] = *args.rule;
    const LanePlace place = lane_place(args);
    const Four<float> g = load_gradients<Sum>(args.sums, rule.factor, place);
    Four<float> velocity = load_moments<FirstCode>(args.first, place);
    Four<float> weights =
        load_four<Reuse::none>(static_cast<const float*>(args.weights) + place.first, place.left, place.is_aligned);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        update_sgd(rule, true, g.at[e], velocity.at[e], weights.at[e]);
    }
    __syncwarp();  // nobody writes a scale before all have read it
    store_moments<FirstCode>(args.first, place, rounding_key, velocity);
    store_weights(args.weights, args.copy, place.first, weights, place.left, place.is_aligned);
}

template <class Rule, class Call>
UpdateArgs<Rule> args_of(Context& context, const Call& call, const CodedRule<Rule>& rule) {
    const bool is_aligned = fits_four(call.gradient) && fits_four(call.weights.data) && fits_four(call.copy) &&
                            fits_four(call.moments.first.codes) && fits_four(call.moments.second.codes);
    return {.sums = call.gradient.data,
            .weights = call.weights.data,
            .first = call.moments.first,
            .second = call.moments.second,
            .copy = copy_of(call.copy),
            .elements = call.gradient.elements,
            .is_aligned = is_aligned ? 1 : 0,
            .rule = context.tape.constant(std::span(&rule, 1))};
}

Shape shape_of(int64_t elements) {
    const int64_t blocks = (moment_blocks(elements) + kBlocksTogether - 1) / kBlocksTogether;
    return {.blocks = dim3(static_cast<uint32_t>(blocks)), .threads = kThreads};
}

}  // namespace

void lower(Context& context, const op::UpdateAdamW8Bit& call, Scratch /*scratch*/) {
    if (call.gradient.elements == 0) {
        return;
    }
    const CodedRule<AdamWRule> rule{.rule = rule_of(call.gradient, call.settings),
                                    .rounding_key = call.moments.rounding_key};
    with_sum_element(call.gradient.kind, [&](auto tag) {
        context.tape.launch(adamw_8bit_kernel<typename decltype(tag)::type>, shape_of(call.gradient.elements),
                            args_of(context, call, rule));
    });
}

void lower(Context& context, const op::UpdateSgd8Bit& call, Scratch /*scratch*/) {
    if (call.gradient.elements == 0) {
        return;
    }
    const CodedRule<SgdRule> rule{.rule = rule_of(call.gradient, call.settings),
                                  .rounding_key = call.moments.rounding_key};
    with_sum_element(call.gradient.kind, [&](auto tag) {
        context.tape.launch(sgd_8bit_kernel<typename decltype(tag)::type>, shape_of(call.gradient.elements),
                            args_of(context, call, rule));
    });
}

}  // namespace accrue::cuda
