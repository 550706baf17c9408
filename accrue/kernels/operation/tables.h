#pragma once

#include <span>

#include "accrue/kernels/operation/basics.h"

namespace accrue {

// The rows of a lookup table that a grain reads, each with the places that read it, in ascending order. Lies on the device.
struct LookupIndex {
    View<const int32_t> entries;      // [1, n]: distinct table rows, ascending
    View<const int32_t> first_place;  // [1, n + 1]: offsets into places
    View<const int32_t> places;       // rows of the grain's activations
};

namespace op {

// output[r] = dropout(table[tokens[r]] + position_table[positions[r]]); an empty position_table adds nothing.
struct Embed {
    static constexpr std::string_view kName = "embed";
    View<const int32_t> tokens;
    View<const float> table;
    View<const int32_t> positions;
    View<const float> position_table;
    Dropout dropout;
    View<float> output;

    [[nodiscard]] static Part part() { return Part::elementwise; }
    void check() const;
    void count(WorkByPart& work) const;
};

// A grain's share in the gradient of a lookup table.
struct LookupGrain {
    RowRange rows;
    LookupIndex index;
    HeldRows held;
    SumView d_table;
};

// For each grain: d_table[e] += (held row of e, where held) + sum over the entry's places p of d_output[rows.first + p], in
// place order, in fp32, then rounded once. Rows of the table that the index does not name are left alone.
struct AddLookupGrad {
    static constexpr std::string_view kName = "add_lookup_grad";
    View<const float> d_output;
    std::span<const LookupGrain> grains;

    [[nodiscard]] static Part part() { return Part::elementwise; }
    void check() const;
    void count(WorkByPart& work) const;
};

// For each row: loss = log(sum(exp(logits))) - logits[target], d_logits = scale * (softmax(logits) - one_hot(target)).
// A target of -1 is not counted: loss 0, d_logits 0. d_logits may be empty (loss only), and may be `logits` itself.
// Logits are fp32, or where a device says so (traits) any, of the dtype of d_logits.
struct CrossEntropy {
    static constexpr std::string_view kName = "cross_entropy";
    AnyView logits;
    View<const int32_t> targets;
    View<float> losses;
    AnyView d_logits;
    float scale = 1;  // of the loss: a power of two

    [[nodiscard]] static Part part() { return Part::loss_head; }
    void check() const;
    void count(WorkByPart& work) const;
};

// sums[g] = the sum of the losses of grain g's rows, in row order, in double.
struct GrainLosses {
    static constexpr std::string_view kName = "grain_losses";
    View<const float> losses;  // [1, rows]
    std::span<const RowRange> grains;
    View<double> sums;  // [1, grains]

    [[nodiscard]] static Part part() { return Part::loss_head; }
    void check() const;
    void count(WorkByPart& work) const;
};

}  // namespace op
}  // namespace accrue
