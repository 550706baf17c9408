// Updates with moments in 8 bits on every instruction set.
#include <vector>

#include "accrue/kernels/cpu/elementwise.h"
#include "accrue/kernels/cpu/product_testing.h"
#include "accrue/kernels/moment_codes.h"

namespace accrue::cpu {
namespace {

constexpr uint64_t kMomentKey = 0xfedcba9876543210;

// The state of one tensor.
struct State {
    std::vector<float> weights;
    std::vector<uint8_t> first;
    std::vector<uint8_t> second;
    std::vector<float> first_scales;
    std::vector<float> second_scales;

    explicit State(size_t elements)
        : weights(elements, 1.0F),
          first(elements),
          second(elements),
          first_scales(static_cast<size_t>(moment_blocks(static_cast<int64_t>(elements)))),
          second_scales(first_scales.size()) {}
    [[nodiscard]] View<float> weights_view() { return {weights.data(), 1, static_cast<int64_t>(weights.size())}; }
    [[nodiscard]] CodedMoments moments(uint64_t key = kMomentKey) {
        return {.first = {first.data(), first_scales.data()},
                .second = {second.data(), second_scales.data()},
                .rounding_key = key};
    }
    bool operator==(const State&) const = default;
};

std::vector<float> some_gradient(size_t elements) {
    std::vector<float> values;
    for (size_t i = 0; i < elements; ++i) {
        values.push_back(normal(mix(3, i)) * (i / 128 % 3 == 1 ? 1e-6F : 1.0F));
    }
    return values;
}

MeanView mean_of(const std::vector<float>& gradient) {
    return {.kind = SumKind::fp32, .data = gradient.data(), .elements = static_cast<int64_t>(gradient.size())};
}

class EightBitTest : public InstructionSetsTest {};

INSTANTIATE_TEST_SUITE_P(Sets, EightBitTest, every_set(), test_name);

// From nothing and with betas of 0 the moments are g and g^2, so that their codes can be told exactly.
TEST_P(EightBitTest, CodesAndScalesAreThoseOfTheDefinition) {
    for (const size_t elements : {1U, 127U, 128U, 129U, 1000U}) {
        const std::vector<float> gradient = some_gradient(elements);
        State state(elements);
        adamw_8bit(context(), mean_of(gradient), {.rate = 0.1F, .epsilon = 1e-8F}, state.weights_view(),
                   state.moments(), {});
        State velocity(elements);
        sgd_8bit(context(), mean_of(gradient), {.rate = 0.1F, .momentum = 0.9F}, velocity.weights_view(),
                 velocity.moments(), {});
        for (size_t i = 0; i < elements; ++i) {
            const size_t block = i / kMomentBlock;
            float largest = 0;
            for (size_t j = block * kMomentBlock; j < std::min(elements, (block + 1) * kMomentBlock); ++j) {
                largest = std::max(largest, std::abs(gradient[j]));
            }
            const uint32_t random = random_bits(kMomentKey, i);
            const float square = gradient[i] * gradient[i];
            ASSERT_EQ(state.first_scales[block], largest);
            ASSERT_EQ(state.second_scales[block], largest * largest);
            ASSERT_EQ(state.first[i], encoded_first(gradient[i], largest, chance_of_first(random))) << i;
            ASSERT_EQ(state.second[i], encoded_second(square, largest * largest, chance_of_second(random))) << i;
            ASSERT_EQ(velocity.first[i], state.first[i]);
        }
    }
}

TEST_P(EightBitTest, ThreadsChangeNoBit) {
    constexpr size_t kElements = 100'003;
    const std::vector<float> gradient = some_gradient(kElements);
    const auto after_steps = [&](int threads) {
        State state(kElements);
        for (uint64_t step = 0; step < 3; ++step) {
            adamw_8bit(context(threads), mean_of(gradient),
                       {.rate = 0.1F, .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F}, state.weights_view(),
                       state.moments(mix(step)), {});
            sgd_8bit(context(threads), mean_of(gradient), {.rate = 0.1F, .momentum = 0.9F}, state.weights_view(),
                     state.moments(mix(step)), {});
        }
        return state;
    };
    const State one = after_steps(1);
    EXPECT_EQ(after_steps(2), one);
    EXPECT_EQ(after_steps(3), one);
}

// Squares that are too large for fp32, and a block of nothing but zeros.
TEST_P(EightBitTest, ExtremesStayFinite) {
    std::vector<float> gradient(300, 0.0F);
    gradient[200] = 1e30F;
    gradient[130] = 1e-30F;
    State state(300);
    for (uint64_t step = 0; step < 3; ++step) {
        adamw_8bit(context(), mean_of(gradient), {.rate = 0.1F, .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F},
                   state.weights_view(), state.moments(mix(step)), {});
    }
    for (const float weight : state.weights) {
        EXPECT_TRUE(std::isfinite(weight));
    }
    EXPECT_EQ(state.first_scales[0], 0);
    EXPECT_EQ(state.weights[5], 1);
}

}  // namespace
}  // namespace accrue::cpu
