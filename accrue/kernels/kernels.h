#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "accrue/base/pool.h"
#include "accrue/kernels/moment_view.h"
#include "accrue/kernels/sum_view.h"
#include "accrue/tensor/arena.h"
#include "accrue/tensor/view.h"

namespace accrue {

// How a weight matrix lies in memory: [out, in] as in most models, or [in, out] as GPT-2 stores it.
enum class WeightLayout { out_in, in_out };

// The dtype of the matrix that it is multiplied with, or fp32: beside bf16 each of its elements is then rounded to bf16
// first, so that the result has the same bits as with a bf16 copy.
struct WeightView {
    AnyConstView matrix;
    WeightLayout layout = WeightLayout::out_in;

    [[nodiscard]] int64_t out() const { return layout == WeightLayout::out_in ? matrix.rows : matrix.columns; }
    [[nodiscard]] int64_t in() const { return layout == WeightLayout::out_in ? matrix.columns : matrix.rows; }
};

// Drops each element with a probability and scales the others by 1 / (1 - probability).
// Element (r, c) is kept when the upper 32 bits of mix(mix(site, rows[r]) + c * 0x9e3779b97f4a7c15) are at least
// probability * 2^32, so a mask is a function of who the row is, never of where it lies. Probability 0 changes nothing.
struct Dropout {
    float probability = 0;
    uint64_t site = 0;          // seed, layer and place in the layer, mixed
    View<const uint64_t> rows;  // [1, rows]: epoch, sample and position of each row, mixed
};

// A run of rows that attend to each other: row first + i sees rows first .. first + i.
struct Segment {
    int64_t first = 0;
    int64_t length = 0;
};

struct AttentionShape {
    int64_t query_heads = 1;
    int64_t key_heads = 1;  // divides query_heads; query head h reads key head h / (query_heads / key_heads)
    int64_t head_size = 1;
    float scale = 1;
    // Of the probabilities: row = the query's, column c = head * 2^32 + the key's place in its segment.
    Dropout dropout;
};

// The rows of a lookup table that a grain reads, each with the places that read it, in ascending order.
struct LookupIndex {
    std::span<const int32_t> entries;      // distinct table rows, ascending
    std::span<const int32_t> first_place;  // entries.size() + 1 offsets into places
    std::span<const int32_t> places;       // rows of the activations
};

// Rows of a weight gradient that are not added yet because a second source follows (a tied embedding).
struct HeldRows {
    std::span<const int32_t> slot_of_row;  // one per row of the weight: its slot in values, or -1; empty = hold nothing
    View<float> values;                    // [slots, columns]
};

struct AdamWSettings {
    float rate = 0;
    float beta1 = 0;
    float beta2 = 0;
    float epsilon = 0;
    float decay = 0;        // decoupled: weight -= rate * decay * weight
    float correction1 = 1;  // 1 / (1 - beta1^t)
    float correction2 = 1;  // 1 / (1 - beta2^t)
};

struct SgdSettings {
    float rate = 0;
    float momentum = 0;
    float decay = 0;  // coupled: gradient += decay * weight
    enum class Kind { plain, nesterov } kind = Kind::plain;
};

// What the hardware is asked to do. Each operation is a contract; `reference` is its shortest correct form.
//
// Holds for all of them, unless said otherwise:
// - Views lie on this device. Outputs are overwritten, except that names starting with add_ add. Outputs overlap no
//   input.
// - "any" views are fp32 or bf16; the views of one product share one dtype, except outputs, which may be either, and
//   weights (WeightView).
// - Products and sums in fp32 or wider; a stored value is rounded once, to the dtype of its view, nearest-even.
// - Each element of a result depends only on the values that its formula names: bits repeat for any number of threads,
//   and a row's bits do not depend on the rows around it. Weight gradients see exactly the rows they are given (one
//   grain).
// - Zero rows are allowed. Scratch memory comes from the arena given at construction and goes back before the call
//   returns.
class Kernels {
public:
    virtual ~Kernels() = default;

    // The device and the instruction set in use, for people.
    [[nodiscard]] virtual std::string description() const = 0;
    [[nodiscard]] virtual Arena& arena() = 0;

    // ---- products ----

    // output[r, o] = sum over i of input[r, i] * weight[o, i]  (+ bias[o] where given)
    // Takes input any [rows, in], weight, bias [1, out] or empty, output any [rows, out].
    virtual void linear(AnyConstView input, const WeightView& weight, View<const float> bias, AnyView output) = 0;

    // output[r, o] = residual[r, o] + dropout(sum over i of input[r, i] * weight[o, i] + bias[o])
    virtual void linear_residual(AnyConstView input, const WeightView& weight, View<const float> bias,
                                 const Dropout& dropout, View<const float> residual, View<float> output) = 0;

    // d_input[r, i] = sum over o of d_output[r, o] * weight[o, i]
    virtual void linear_input_grad(AnyConstView d_output, const WeightView& weight, AnyView d_input) = 0;

    // d_weight[o, i] += sum over r of d_output[r, o] * input[r, i], for one grain; [i, o] with in_out.
    // The grain's total of an element is computed in fp32 and rounded once to the sum's unit.
    // Rows of d_weight that `held` names are written to held.values instead, and neither added nor recorded (out_in
    // only).
    virtual void add_linear_weight_grad(AnyConstView d_output, AnyConstView input, WeightLayout layout,
                                        const SumView& d_weight, const HeldRows& held) = 0;

    // The same, but sum, record and held rows are complete only when the next linear_input_grad has returned, which must
    // not write to what this reads; only calls like this one and add_bias_grad may come between. So that no thread need
    // wait for another between the two.
    virtual void start_linear_weight_grad(AnyConstView d_output, AnyConstView input, WeightLayout layout,
                                          const SumView& d_weight, const HeldRows& held) {
        add_linear_weight_grad(d_output, input, layout, d_weight, held);
    }
    // The share of the last linear_input_grad's time that went to what was started before it.
    [[nodiscard]] virtual double started_share() const { return 0; }

    // d_bias[o] += sum over r of d_output[r, o], for one grain, in double.
    virtual void add_bias_grad(AnyConstView d_output, const SumView& d_bias) = 0;

    // ---- norms ----

    // Each run of `width` = gain.columns columns is normalised by itself (a head, or the whole row):
    // output = input * inverse_rms * gain, inverse_rms = 1 / sqrt(mean(input^2) + epsilon), one per run: [rows, columns
    // / width].
    virtual void rms_norm(AnyConstView input, View<const float> gain, float epsilon, AnyView output,
                          View<float> inverse_rms) = 0;
    // d_input = inverse_rms * (d_output * gain - x * mean(d_output * gain * x)), with x = input * inverse_rms.
    virtual void rms_norm_input_grad(AnyConstView d_output, AnyConstView input, View<const float> gain,
                                     View<const float> inverse_rms, AnyView d_input) = 0;
    // The same, added.
    virtual void add_rms_norm_input_grad(AnyConstView d_output, AnyConstView input, View<const float> gain,
                                         View<const float> inverse_rms, View<float> d_input) = 0;
    // d_gain[c] += sum over r (and over runs) of d_output * input * inverse_rms, for one grain, in double.
    virtual void add_rms_norm_gain_grad(AnyConstView d_output, AnyConstView input, View<const float> inverse_rms,
                                        const SumView& d_gain) = 0;

    // output = (input - mean) * inverse_deviation * gain + bias, over whole rows; mean and inverse_deviation [rows, 1].
    virtual void layer_norm(View<const float> input, View<const float> gain, View<const float> bias, float epsilon,
                            AnyView output, View<float> mean, View<float> inverse_deviation) = 0;
    // d_input += inverse_deviation * (g - mean(g) - x * mean(g * x)), with g = d_output * gain and x the normalised
    // input.
    virtual void add_layer_norm_input_grad(AnyConstView d_output, View<const float> input, View<const float> gain,
                                           View<const float> mean, View<const float> inverse_deviation,
                                           View<float> d_input) = 0;
    // d_gain[c] += sum over r of d_output * x; the bias's gradient is add_bias_grad. One grain, in double.
    virtual void add_layer_norm_gain_grad(AnyConstView d_output, View<const float> input, View<const float> mean,
                                          View<const float> inverse_deviation, const SumView& d_gain) = 0;

    // ---- rotary positions, attention, activations ----

    // In place: each head's pair (x[i], x[i + head/2]) is turned by the angle whose cosine and sine stand in
    // table[positions[r]] = cos[0..head/2), sin[0..head/2). `head` = table.columns.
    virtual void rope(AnyView heads, View<const int32_t> positions, View<const float> table) = 0;
    // The same by the negative angle: the gradient of rope.
    virtual void rope_grad(AnyView d_heads, View<const int32_t> positions, View<const float> table) = 0;

    // output = dropout(softmax(scale * query key^T, causal within each segment)) value, per query head.
    // Takes query any [rows, query_heads * head_size], key and value any [rows, key_heads * head_size], output any like
    // query, log_sum [rows, query_heads]: the logarithm of each row's sum of exponentials, for the backward pass.
    // With bf16 views a device may round probabilities, and backward their gradients, to bf16 before their products.
    // Never stores a whole score matrix: at most some rows of it per thread.
    virtual void attention(const AttentionShape& shape, std::span<const Segment> segments, AnyConstView query,
                           AnyConstView key, AnyConstView value, AnyView output, View<float> log_sum) = 0;
    // The gradients of query, key and value from d_output and what attention stored.
    virtual void attention_grad(const AttentionShape& shape, std::span<const Segment> segments, AnyConstView query,
                                AnyConstView key, AnyConstView value, AnyConstView output, View<const float> log_sum,
                                AnyConstView d_output, AnyView d_query, AnyView d_key, AnyView d_value) = 0;

    // output = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), Hugging Face's "gelu_new".
    virtual void gelu(AnyConstView input, AnyView output) = 0;
    // d_input = d_output * gelu'(input); d_input may be d_output.
    virtual void gelu_grad(AnyConstView d_output, AnyConstView input, AnyView d_input) = 0;

    // output[r, c] = silu(gate) * up, gate = gate_up[r, c], up = gate_up[r, columns + c].
    virtual void swiglu(AnyConstView gate_up, AnyView output) = 0;
    virtual void swiglu_grad(AnyConstView d_output, AnyConstView gate_up, AnyView d_gate_up) = 0;

    // ---- lookup and loss ----

    // output[r] = dropout(table[tokens[r]] + position_table[positions[r]]); an empty position_table adds nothing.
    virtual void embed(View<const int32_t> tokens, View<const float> table, View<const int32_t> positions,
                       View<const float> position_table, const Dropout& dropout, View<float> output) = 0;
    // d_table[e] += (held row of e, where held) + sum over the entry's places p of d_output[p], in place order, in fp32
    // for one grain, then rounded once. Rows of the table that the index does not name are left alone.
    virtual void add_lookup_grad(View<const float> d_output, const LookupIndex& index, const HeldRows& held,
                                 const SumView& d_table) = 0;

    // For each row: loss = log(sum(exp(logits))) - logits[target], d_logits = softmax(logits) - one_hot(target).
    // A target of -1 is not counted: loss 0, d_logits 0. d_logits may be empty (loss only), and may be `logits` itself.
    virtual void cross_entropy(View<float> logits, View<const int32_t> targets, View<float> losses,
                               AnyView d_logits) = 0;

    // ---- optimizer ----

    // The sum of the squared elements of a mean gradient, over fixed blocks in fixed order, in double.
    [[nodiscard]] virtual double squared_norm(const MeanView& gradient) = 0;

    // g = gradient; m += (1 - beta1)(g - m); v += (1 - beta2)(g^2 - v);
    // weight = weight - rate (m c1 / (sqrt(v c2) + epsilon) + decay weight). `copy` [1, n], where not empty, gets the
    // rounded weight.
    virtual void adamw(const MeanView& gradient, const AdamWSettings& settings, View<float> weights,
                       View<float> first_moment, View<float> second_moment, AnyView copy) = 0;
    // g = gradient + decay weight; b = momentum b + g; weight -= rate (nesterov ? g + momentum b : b).
    // With momentum 0, `velocity` may be empty.
    virtual void sgd(const MeanView& gradient, const SgdSettings& settings, View<float> weights, View<float> velocity,
                     AnyView copy) = 0;
    // The same with moments in 8 bits (moment_codes.h): the moments are read from their codes, the new ones update the
    // weights as they are, in fp32, and are rounded once, by chance, to new codes and scales. A block belongs to one
    // thread.
    virtual void adamw_8bit(const MeanView& gradient, const AdamWSettings& settings, View<float> weights,
                            const CodedMoments& moments, AnyView copy) = 0;
    virtual void sgd_8bit(const MeanView& gradient, const SgdSettings& settings, View<float> weights,
                          const CodedMoments& moments, AnyView copy) = 0;

    // ---- moving ----

    // output = dropout(input), rounded to the output's dtype.
    virtual void cast(View<const float> input, const Dropout& dropout, AnyView output) = 0;
    virtual void fill_zero(std::span<std::byte> memory) = 0;
    // output gets the host's values.
    virtual void copy_in(std::span<const std::byte> host, std::span<std::byte> output) = 0;
    // The host gets `values`; waits for everything asked before.
    virtual void copy_out(View<const float> values, std::span<float> host) = 0;
};

// Plain loops with sums in double: the specification.
[[nodiscard]] std::unique_ptr<Kernels> make_reference_kernels(Arena& arena);
// Threads and vector instructions: the fastest set this processor has, or at most `instruction_set` ("avx2", "avx512",
// "avx512-bf16", "amx"); an error names what the processor lacks. "" = the best.
[[nodiscard]] std::unique_ptr<Kernels> make_cpu_kernels(Pool& pool, Arena& arena,
                                                        const std::string& instruction_set = "");

}  // namespace accrue
