// Every gradient of the reference against central differences of its forward pass.
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "accrue/kernels/conformance.h"
#include "accrue/kernels/one_by_one.h"

namespace accrue::conformance {
namespace {

// The step balances two errors of a difference quotient: the third derivative times step^2 / 6, and the rounding of the
// outputs to fp32 (6e-8 of each) divided by the step. Both stay below 1e-4 here, so 1e-3 in the L2 norm has room.
constexpr float kStep = 0x1p-7F;
constexpr double kTolerance = 1e-3;

class GradientTest : public testing::Test {
protected:
    Matrix random(uint64_t seed, int64_t rows, int64_t columns) const {
        return Matrix::random(tried_, DType::fp32, seed, rows, columns);
    }
    Matrix poison(int64_t rows, int64_t columns) const { return Matrix::poison(tried_, DType::fp32, rows, columns); }

    // The gradient of sum(d_output * forward()) with respect to each element of x must be `gradient`.
    void expect_gradient(const std::string& name, Matrix& x, const std::vector<double>& d_output,
                         const std::function<std::vector<double>()>& forward, const std::vector<double>& gradient) {
        double error = 0;
        double norm = 0;
        ASSERT_EQ(static_cast<int64_t>(gradient.size()), x.rows() * x.columns()) << name;
        for (int64_t r = 0; r < x.rows(); ++r) {
            for (int64_t c = 0; c < x.columns(); ++c) {
                const double middle = x.at(r, c);
                x.set(r, c, middle + kStep);
                const double above = x.at(r, c);
                const std::vector<double> high = forward();
                x.set(r, c, middle - kStep);
                const double below = x.at(r, c);
                const std::vector<double> low = forward();
                x.set(r, c, middle);
                double slope = 0;
                for (size_t i = 0; i < high.size(); ++i) {
                    slope += d_output[i] * (high[i] - low[i]) / (above - below);
                }
                const double difference = slope - gradient[static_cast<size_t>(r * x.columns() + c)];
                error += difference * difference;
                norm += slope * slope;
            }
        }
        EXPECT_GT(norm, 0) << name;
        EXPECT_LT(std::sqrt(error), kTolerance * std::sqrt(norm)) << name;
    }

    // What `add` adds to a sum of that shape.
    std::vector<double> added(int64_t rows, int64_t columns, const std::function<void(const SumView&)>& add) {
        Sum sum(tried_, 99, rows, columns);
        const std::vector<double> before = sum.values();
        add(sum.view());
        std::vector<double> after = sum.values();
        for (size_t i = 0; i < after.size(); ++i) {
            after[i] -= before[i];
        }
        return after;
    }

    Case tried_{.rows = 9, .in = 6, .out = 5, .gap = 2};
    Arena arena_{1 << 20};
    std::unique_ptr<Kernels> kernels_ = make_reference_kernels(arena_);
};

TEST_F(GradientTest, OfALinearLayer) {
    for (const WeightLayout layout : {WeightLayout::out_in, WeightLayout::in_out}) {
        const bool out_first = layout == WeightLayout::out_in;
        tried_.dropout = 0.4F;
        const Mask mask(tried_, 5);
        Matrix input = random(1, 9, 6);
        Matrix weight = random(2, out_first ? 5 : 6, out_first ? 6 : 5);
        Matrix bias = random(3, 1, 5);
        Matrix residual = random(4, 9, 5);
        Matrix d_output = random(5, 9, 5);
        Matrix output = poison(9, 5);
        const WeightView weights{weight.any(), layout};
        const auto forward = [&] {
            kernels_->run(op::LinearResidual{input.any(), weights, bias.floats(), mask.dropout, residual.floats(),
                                             output.floats()});
            return output.values();
        };
        Matrix d_dropped = poison(9, 5);
        kernels_->run(op::Cast{d_output.floats(), mask.dropout, d_dropped.any()});
        Matrix d_input = poison(9, 6);
        one_by_one::linear_input_grad(*kernels_, d_dropped.any(), weights, d_input.any());
        const std::vector<double> d = d_output.values();
        expect_gradient("input", input, d, forward, d_input.values());
        expect_gradient("weight", weight, d, forward, added(weight.rows(), weight.columns(), [&](const SumView& sum) {
                            one_by_one::add_linear_weight_grad(*kernels_, d_dropped.any(), input.any(), layout, sum);
                        }));
        expect_gradient("bias", bias, d, forward, added(1, 5, [&](const SumView& sum) {
                            one_by_one::add_bias_grad(*kernels_, d_dropped.any(), sum);
                        }));
    }
}

TEST_F(GradientTest, OfRmsNorm) {
    for (const int64_t width : {6, 3, 2}) {
        Matrix input = random(1, 9, 6);
        Matrix gain = random(2, 1, width);
        Matrix d_output = random(3, 9, 6);
        Matrix output = poison(9, 6);
        Matrix inverse_rms = poison(9, 6 / width);
        const auto forward = [&] {
            kernels_->run(op::RmsNorm{input.any(), gain.floats(), 0.01F, output.any(), inverse_rms.floats()});
            return output.values();
        };
        forward();
        Matrix d_input = poison(9, 6);
        const RowRange all{.first = 0, .rows = 9};
        op::RmsNormBackward backward{.d_output = d_output.any(),
                                     .input = input.any(),
                                     .gain = gain.floats(),
                                     .inverse_rms = inverse_rms.floats(),
                                     .d_input = d_input.any(),
                                     .d_stream = {},
                                     .grains = std::span(&all, 1),
                                     .d_gain = {}};
        const std::vector<double> d_gain = added(1, width, [&](const SumView& sum) {
            backward.d_gain = std::span(&sum, 1);
            kernels_->run(backward);
        });
        expect_gradient("input", input, d_output.values(), forward, d_input.values());
        expect_gradient("gain", gain, d_output.values(), forward, d_gain);

        Matrix added_to = random(4, 9, 6);
        const std::vector<double> before = added_to.values();
        forward();
        backward.d_input = {};
        backward.d_stream = added_to.floats();
        backward.d_gain = {};
        kernels_->run(backward);
        for (size_t i = 0; i < before.size(); ++i) {
            EXPECT_NEAR(added_to.values()[i], before[i] + d_input.values()[i], 1e-6);  // the rounding of one addition
        }
    }
}

TEST_F(GradientTest, OfLayerNorm) {
    Matrix input = random(1, 9, 6);
    Matrix gain = random(2, 1, 6);
    Matrix bias = random(3, 1, 6);
    Matrix d_output = random(4, 9, 6);
    Matrix output = poison(9, 6);
    Matrix mean = poison(9, 1);
    Matrix inverse_deviation = poison(9, 1);
    const auto forward = [&] {
        kernels_->run(op::LayerNorm{input.floats(), gain.floats(), bias.floats(), 0.01F, output.any(), mean.floats(),
                                    inverse_deviation.floats()});
        return output.values();
    };
    forward();
    Matrix d_input = poison(9, 6);
    for (int64_t i = 0; i < 9 * 6; ++i) {
        d_input.set(i / 6, i % 6, 0);
    }
    const RowRange all{.first = 0, .rows = 9};
    op::LayerNormBackward backward{.d_output = d_output.any(),
                                   .input = input.floats(),
                                   .gain = gain.floats(),
                                   .mean = mean.floats(),
                                   .inverse_deviation = inverse_deviation.floats(),
                                   .d_stream = d_input.floats(),
                                   .grains = std::span(&all, 1),
                                   .d_gain = {},
                                   .d_bias = {}};
    kernels_->run(backward);
    Matrix again = d_input;
    backward.d_stream = again.floats();
    const std::vector<double> d_gain = added(1, 6, [&](const SumView& sum) {
        backward.d_gain = std::span(&sum, 1);
        kernels_->run(backward);
    });
    backward.d_gain = {};
    const std::vector<double> d_bias = added(1, 6, [&](const SumView& sum) {
        backward.d_bias = std::span(&sum, 1);
        kernels_->run(backward);
    });
    expect_gradient("input", input, d_output.values(), forward, d_input.values());
    expect_gradient("gain", gain, d_output.values(), forward, d_gain);
    expect_gradient("bias", bias, d_output.values(), forward, d_bias);
}

TEST_F(GradientTest, OfRotaryPositions) {
    const std::vector<int32_t> positions = random_indices(tried_, 8, 9, 4);
    Matrix table = random(7, 4, 6);
    Matrix heads = random(1, 9, 12);
    Matrix d_output = random(2, 9, 12);
    const std::vector<double> d = d_output.values();
    const auto forward = [&] {
        Matrix turned = heads;
        kernels_->run(op::Rope{turned.any(), row_of(positions), table.floats()});
        return turned.values();
    };
    kernels_->run(op::RopeGrad{d_output.any(), row_of(positions), table.floats()});
    expect_gradient("heads", heads, d, forward, d_output.values());
}

TEST_F(GradientTest, OfAttention) {
    using Kind = std::pair<AttentionMask, float>;
    for (const auto& [masks, probability] :
         {Kind{AttentionMask::causal, 0.0F}, Kind{AttentionMask::causal, 0.4F}, Kind{AttentionMask::full, 0.4F}}) {
        tried_.dropout = probability;
        const Mask mask(tried_, 6);
        const AttentionShape shape{
            .query_heads = 4, .key_heads = 2, .head_size = 3, .scale = 0.6F, .mask = masks, .dropout = mask.dropout};
        const std::array<Segment, 3> list{Segment{0, 3}, Segment{3, 1}, Segment{4, 5}};
        const Segments segments = Segments::of(list, list.data(), masks);
        Matrix query = random(1, 9, 12);
        Matrix key = random(2, 9, 6);
        Matrix value = random(3, 9, 6);
        Matrix d_output = random(4, 9, 12);
        Matrix output = poison(9, 12);
        Matrix log_sum = poison(9, 4);
        const auto forward = [&] {
            kernels_->run(
                op::Attention{shape, segments, query.any(), key.any(), value.any(), output.any(), log_sum.floats()});
            return output.values();
        };
        forward();
        Matrix d_query = poison(9, 12);
        Matrix d_key = poison(9, 6);
        Matrix d_value = poison(9, 6);
        kernels_->run(op::AttentionGrad{shape, segments, query.any(), key.any(), value.any(), output.any(),
                                        log_sum.floats(), d_output.any(), d_query.any(), d_key.any(), d_value.any()});
        expect_gradient("query", query, d_output.values(), forward, d_query.values());
        expect_gradient("key", key, d_output.values(), forward, d_key.values());
        expect_gradient("value", value, d_output.values(), forward, d_value.values());
    }
}

TEST_F(GradientTest, OfActivations) {
    Matrix input = random(1, 9, 6);
    Matrix output = poison(9, 6);
    Matrix d_output = random(2, 9, 6);
    Matrix d_input = poison(9, 6);
    kernels_->run(op::GeluGrad{d_output.any(), input.any(), d_input.any()});
    expect_gradient(
        "gelu", input, d_output.values(),
        [&] {
            kernels_->run(op::Gelu{input.any(), output.any()});
            return output.values();
        },
        d_input.values());

    Matrix half = poison(9, 3);
    Matrix d_half = random(3, 9, 3);
    kernels_->run(op::SwigluGrad{d_half.any(), input.any(), d_input.any()});
    expect_gradient(
        "swiglu", input, d_half.values(),
        [&] {
            kernels_->run(op::Swiglu{input.any(), half.any()});
            return half.values();
        },
        d_input.values());
}

TEST_F(GradientTest, OfAnEmbedding) {
    tried_.dropout = 0.4F;
    const Mask mask(tried_, 5);
    const std::vector<int32_t> tokens{2, 0, 2, 3, 2, 0, 0, 3, 3};
    const std::vector<int32_t> positions{0, 1, 2, 3, 4, 0, 1, 2, 3};
    const std::vector<int32_t> entries{0, 2, 3};
    const std::vector<int32_t> first_place{0, 3, 6, 9};
    const std::vector<int32_t> places{1, 5, 6, 0, 2, 4, 3, 7, 8};
    Matrix table = random(1, 5, 6);
    Matrix position_table = random(2, 5, 6);
    Matrix output = poison(9, 6);
    Matrix d_output = random(3, 9, 6);
    const auto forward = [&] {
        kernels_->run(op::Embed{row_of(tokens), table.floats(), row_of(positions), position_table.floats(),
                                mask.dropout, output.floats()});
        return output.values();
    };
    Matrix d_dropped = poison(9, 6);
    kernels_->run(op::Cast{d_output.floats(), mask.dropout, d_dropped.any()});
    expect_gradient("table", table, d_output.values(), forward, added(5, 6, [&](const SumView& sum) {
                        one_by_one::add_lookup_grad(*kernels_, d_dropped.floats(),
                                                    {row_of(entries), row_of(first_place), row_of(places)}, {}, sum);
                    }));
}

TEST_F(GradientTest, OfTheLoss) {
    const std::vector<int32_t> targets{0, 3, -1, 2, 4, 4, -1, 1, 0};
    Matrix logits = random(1, 9, 5);
    Matrix losses = poison(1, 9);
    Matrix d_logits = poison(9, 5);
    kernels_->run(op::CrossEntropy{logits.floats(), row_of(targets), losses.floats(), d_logits.any()});
    expect_gradient(
        "logits", logits, std::vector<double>(9, 1),
        [&] {
            kernels_->run(op::CrossEntropy{logits.floats(), row_of(targets), losses.floats(), {}});
            return losses.values();
        },
        d_logits.values());
    EXPECT_EQ(losses.at(0, 2), 0);
    EXPECT_EQ(d_logits.at(2, 3), 0);
}

}  // namespace
}  // namespace accrue::conformance
