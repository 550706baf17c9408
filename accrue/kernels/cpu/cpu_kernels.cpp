#include "accrue/kernels/cpu/cpu_kernels.h"

#include <cstring>
#include <type_traits>

#include "accrue/kernels/cpu/elementwise.h"
#include "accrue/kernels/cpu/linear.h"
#include "accrue/kernels/cpu/started.h"
#include "accrue/kernels/device.h"

namespace accrue {
namespace cpu {
namespace {

std::span<const Segment> list_of(const Segments& segments) {
    return {segments.list.data, static_cast<size_t>(segments.list.columns)};
}

void require_known(AttentionMask mask) {
    if (mask != AttentionMask::causal) {
        throw Error("the cpu device computes attention with a causal mask only");
    }
}

template <class Matrix>
Matrix rows_of(const Matrix& matrix, const RowRange& range) {
    return matrix.slice_rows(range.first, range.rows);
}

void compute(const Context& context, const op::Linear& call) {
    linear(context, call.input, call.weight, call.bias, call.output);
}

void compute(const Context& context, const op::LinearResidual& call) {
    linear_residual(context, call.input, call.weight, call.bias, call.dropout, call.residual, call.output);
}

void compute(const Context& context, const op::LinearActivation& call) {
    compute(context, call.product());
    if (call.activation == op::Activation::gelu) {
        gelu(context, call.hidden, call.activated);
    } else {
        swiglu(context, call.hidden, call.activated);
    }
}

void compute(const Context& context, const op::RmsNorm& call) {
    rms_norm(context, call.input, call.gain, call.epsilon, call.output, call.inverse_rms);
}

void compute(const Context& context, const op::LayerNorm& call) {
    layer_norm(context, call.input, call.gain, call.bias, call.epsilon, call.output, call.mean, call.inverse_deviation);
}

void add_column_sums(const Context& context, const AnyConstView& matrix, std::span<const RowRange> grains,
                     std::span<const SumView> sums) {
    for (size_t grain = 0; grain < sums.size(); ++grain) {
        add_bias_grad(context, rows_of(matrix, grains[grain]), sums[grain]);
    }
}

template <class Call>
void copy_stream(const Context& context, const Call& call) {
    if (!call.copy.empty()) {
        cast(context, call.d_stream, {}, call.copy);
        add_column_sums(context, call.copy, call.grains, call.copy_sums);
    }
}

void compute(const Context& context, const op::RmsNormBackward& call) {
    for (size_t grain = 0; grain < call.d_gain.size(); ++grain) {
        const RowRange& range = call.grains[grain];
        add_rms_norm_gain_grad(context, rows_of(call.d_output, range), rows_of(call.input, range),
                               rows_of(call.inverse_rms, range), call.d_gain[grain]);
    }
    if (call.d_stream.empty()) {
        rms_norm_input_grad(context, call.d_output, call.input, call.gain, call.inverse_rms, call.d_input);
    } else {
        add_rms_norm_input_grad(context, call.d_output, call.input, call.gain, call.inverse_rms, call.d_stream);
    }
    copy_stream(context, call);
}

void compute(const Context& context, const op::LayerNormBackward& call) {
    for (size_t grain = 0; grain < call.grains.size(); ++grain) {
        const RowRange& range = call.grains[grain];
        const AnyConstView d_output = rows_of(call.d_output, range);
        if (!call.d_gain.empty()) {
            add_layer_norm_gain_grad(context, d_output, rows_of(call.input, range), rows_of(call.mean, range),
                                     rows_of(call.inverse_deviation, range), call.d_gain[grain]);
        }
        if (!call.d_bias.empty()) {
            add_bias_grad(context, d_output, call.d_bias[grain]);
        }
    }
    add_layer_norm_input_grad(context, call.d_output, call.input, call.gain, call.mean, call.inverse_deviation,
                              call.d_stream);
    copy_stream(context, call);
}

void compute(const Context& context, const op::Rope& call) {
    rope(context, call.heads, call.positions, call.table);
}

void compute(const Context& context, const op::RopeGrad& call) {
    rope_grad(context, call.d_heads, call.positions, call.table);
}

void compute(const Context& context, const op::Attention& call) {
    require_known(call.shape.mask);
    attention(context, call.shape, list_of(call.segments), call.query, call.key, call.value, call.output, call.log_sum);
}

void compute(const Context& context, const op::AttentionGrad& call) {
    require_known(call.shape.mask);
    attention_grad(context, call.shape, list_of(call.segments), call.query, call.key, call.value, call.output,
                   call.log_sum, call.d_output, call.d_query, call.d_key, call.d_value);
}

void compute(const Context& context, const op::Gelu& call) {
    gelu(context, call.input, call.output);
}

void compute(const Context& context, const op::GeluGrad& call) {
    gelu_grad(context, call.d_output, call.input, call.d_input);
    add_column_sums(context, call.d_input, call.grains, call.d_bias);
}

void compute(const Context& context, const op::Swiglu& call) {
    swiglu(context, call.gate_up, call.output);
}

void compute(const Context& context, const op::SwigluGrad& call) {
    swiglu_grad(context, call.d_output, call.gate_up, call.d_gate_up);
}

void compute(const Context& context, const op::Embed& call) {
    embed(context, call.tokens, call.table, call.positions, call.position_table, call.dropout, call.output);
}

void compute(const Context& context, const op::AddLookupGrad& call) {
    for (const op::LookupGrain& grain : call.grains) {
        add_lookup_grad(context, rows_of(call.d_output, grain.rows), grain.index, grain.held, grain.d_table);
    }
}

void compute(const Context& context, const op::CrossEntropy& call) {
    cross_entropy(context, call.logits.as<float>(), call.targets, call.losses, call.d_logits);
}

void compute(const Context&, const op::GrainLosses& call) {
    for (size_t grain = 0; grain < call.grains.size(); ++grain) {
        const auto& [first, rows] = call.grains[grain];
        double sum = 0;
        for (int64_t row = first; row < first + rows; ++row) {
            sum += static_cast<double>(call.losses.data[row]);
        }
        call.sums.data[grain] = sum;
    }
}

void compute(const Context& context, const op::SquaredNorm& call) {
    double sum = 0;
    for (const MeanView& gradient : call.gradients) {
        sum += squared_norm(context, gradient);
    }
    *call.result.data = sum;
}

void compute(const Context& context, const op::UpdateAdamW& call) {
    adamw(context, call.gradient, call.settings, call.weights, call.first_moment, call.second_moment, call.copy);
}

void compute(const Context& context, const op::UpdateSgd& call) {
    sgd(context, call.gradient, call.settings, call.weights, call.velocity, call.copy);
}

void compute(const Context& context, const op::UpdateAdamW8Bit& call) {
    adamw_8bit(context, call.gradient, call.settings, call.weights, call.moments, call.copy);
}

void compute(const Context& context, const op::UpdateSgd8Bit& call) {
    sgd_8bit(context, call.gradient, call.settings, call.weights, call.moments, call.copy);
}

void compute(const Context& context, const op::Cast& call) {
    cast(context, call.input, call.dropout, call.output);
}

void compute(const Context& context, const op::FillZero& call) {
    fill_zero(context, call.memory);
}

// Not by the pool: it may be at work for another thread.
void compute(const Context&, const op::Upload& call) {
    std::copy(call.host.begin(), call.host.end(), call.device.begin());
}

void compute(const Context&, const op::Download& call) {
    std::copy(call.device.begin(), call.device.end(), call.host.begin());
}

void compute(const Context& context, const op::AddGradient& call) {
    add_gradient(context, call.values, call.sum);
}

void compute(const Context& context, const op::AddSums& call) {
    add_sums(context, call.others, call.sums);
}

// Every operation completes its sums itself.
void compute(const Context&, const op::CompleteSums&) {}

}  // namespace
}  // namespace cpu

std::string CpuKernels::description() const {
    const int threads = context_.pool.threads();
    return cat("cpu, ", threads, threads == 1 ? " thread, " : " threads, ", cpu::title_of(context_.set));
}

void CpuKernels::compute(const Operation& operation) {
    std::visit(
        [this](const auto& call) {
            if constexpr (std::is_same_v<decltype(call), const op::LinearBackward&>) {
                linear_backward(call);
            } else {
                cpu::compute(context_, call);
            }
        },
        operation);
}

// Biases first, while a cache still holds what was just written. Then the weights' gradients are packed, and most of
// their work is left for the product that follows, so that no thread need wait for another between the two; but not the
// head's, whose operands are so large that nothing should be kept of them.
void CpuKernels::linear_backward(const op::LinearBackward& call) {
    cpu::for_sums(call, [&](size_t grain, const op::LinearSums& sums) {
        if (!sums.bias.empty()) {
            cpu::add_bias_grad(context_, cpu::d_output_of(call, grain, sums), sums.bias[grain]);
        }
    });
    lap({Part::elementwise});
    cpu::StartedProducts started;
    cpu::for_sums(call, [&](size_t grain, const op::LinearSums& sums) {
        if (sums.weight.empty()) {
            return;
        }
        const AnyConstView d_output = cpu::d_output_of(call, grain, sums);
        const AnyConstView input = cpu::rows_of(call.input, call.grains[grain]);
        const SumView& sum = sums.weight[grain];
        const WeightLayout layout = call.weight.layout;
        if (!cpu::may_wait(call)) {
            cpu::add_linear_weight_grad(context_, d_output, input, layout, sum, call.held_of(grain));
            return;
        }
        if (cpu::must_run_before(started, sum)) {
            cpu::run(context_, std::exchange(started, {}));
        }
        started.push_back(cpu::start_linear_weight_grad(context_, d_output, input, layout, sum, call.held_of(grain)));
    });
    lap({call.weight_part()});
    if (call.d_input.empty()) {
        cpu::run(context_, std::move(started));
        lap({call.weight_part()});
        return;
    }
    const double share = cpu::linear_input_grad(context_, call.d_output, call.weight, call.d_input, std::move(started));
    lap({call.part(), 1 - share}, {call.weight_part(), share});
}

}  // namespace accrue
