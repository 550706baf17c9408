#include "accrue/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accrue/kernels/cpu/column_sums.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "accrue/kernels/cpu/elementwise.h"
#include "accrue/kernels/cpu/elementwise_plan.h"
#include "accrue/kernels/cpu/exact_add-inl.h"
#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/cpu/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

// Vectors of columns whose sums one thread keeps in registers. Where nothing else needs them there are more with
// AVX-512: longer stretches of a row come sooner from memory.
inline constexpr int64_t kSummedVectors = 8;
inline constexpr int64_t kMostSummedVectors = HWY_TARGET == HWY_AVX3 ? 16 : 8;

// totals[c] = the sum over rows of term(row, c), in double, in the order of the rows, for `vectors` vectors of columns.
template <int64_t vectors, class Term>
HWY_INLINE void sum_columns_of(int64_t rows, int64_t column, int64_t left, const Term& term, float* totals) {
    const Doubles d;
    DoubleVector sums[vectors];
#pragma GCC unroll 16
    for (int64_t v = 0; v < vectors; ++v) {
        sums[v] = hn::Zero(d);
    }
    for (int64_t r = 0; r < rows; ++r) {
#pragma GCC unroll 16
        for (int64_t v = 0; v < vectors; ++v) {
            const int64_t offset = v * kDoubleLanes;
            sums[v] = hn::Add(sums[v], hn::PromoteTo(d, term(r, column + offset, left - offset)));
        }
    }
#pragma GCC unroll 16
    for (int64_t v = 0; v < vectors; ++v) {
        const int64_t offset = v * kDoubleLanes;
        store_lanes(HalfFloats(), rounded_to_floats(sums[v]), totals + column + offset, left - offset);
    }
}

// Adds the sums over rows to a gradient. term(row, column, left) gives the terms of one row as HalfFloats; each column
// belongs to one thread.
template <int64_t vectors, class Term>
void add_column_sums(Pool& pool, int64_t rows, const SumView& sum, float* totals, const Term& term) {
    constexpr int64_t kSummedColumns = vectors * kDoubleLanes;
    const int64_t columns = sum.elements();
    const int64_t blocks = (columns + kSummedColumns - 1) / kSummedColumns;
    for_ranges(pool, blocks, rows * kSummedColumns, [&](int64_t first, int64_t last) HWY_ATTR {
        const int64_t end = std::min(columns, last * kSummedColumns);
        int64_t column = first * kSummedColumns;
        for (; column + kSummedColumns <= end; column += kSummedColumns) {
            sum_columns_of<vectors>(rows, column, kSummedColumns, term, totals);
        }
        for (; column < end; column += kDoubleLanes) {
            sum_columns_of<1>(rows, column, end - column, term, totals);
        }
    });
    add_values(totals, columns, sum, 0, *sum.record);
}

void add_bias_grad(Pool& pool, AnyConstView d_output, const SumView& d_bias, float* totals) {
    with_type(d_output, [&](auto above) HWY_ATTR {
        add_column_sums<kMostSummedVectors>(pool, above.rows, d_bias, totals,
                                            [&](int64_t r, int64_t column, int64_t left) HWY_ATTR {
                                                return load_floats(HalfFloats(), above.row(r) + column, left);
                                            });
    });
}

template <class Out, class In>
void add_rms_norm_gain_grad_typed(Pool& pool, View<const Out> d_output, View<const In> input,
                                  View<const float> inverse_rms, const SumView& d_gain, float* totals) {
    const HalfFloats d;
    const int64_t width = d_gain.elements();
    const int64_t runs = input.columns / width;
    add_column_sums<kSummedVectors>(
        pool, input.rows * runs, d_gain, totals, [&](int64_t r, int64_t column, int64_t left) HWY_ATTR {
            const int64_t row = r / runs;
            const int64_t run = r % runs;
            const int64_t place = run * width + column;
            const auto x = hn::Mul(load_floats(d, input.row(row) + place, left), hn::Set(d, inverse_rms.row(row)[run]));
            return hn::Mul(load_floats(d, d_output.row(row) + place, left), x);
        });
}

void add_rms_norm_gain_grad(Pool& pool, AnyConstView d_output, AnyConstView input, View<const float> inverse_rms,
                            const SumView& d_gain, float* totals) {
    with_type(d_output, [&](auto above) HWY_ATTR {
        with_type(input, [&](auto in)
                             HWY_ATTR { add_rms_norm_gain_grad_typed(pool, above, in, inverse_rms, d_gain, totals); });
    });
}

void add_layer_norm_gain_grad(Pool& pool, AnyConstView d_output, View<const float> input, View<const float> mean,
                              View<const float> inverse_deviation, const SumView& d_gain, float* totals) {
    const HalfFloats d;
    with_type(d_output, [&](auto above) HWY_ATTR {
        add_column_sums<kSummedVectors>(
            pool, input.rows, d_gain, totals, [&](int64_t r, int64_t column, int64_t left) HWY_ATTR {
                const auto centered = hn::Sub(load_floats(d, input.row(r) + column, left), hn::Set(d, *mean.row(r)));
                const auto x = hn::Mul(centered, hn::Set(d, *inverse_deviation.row(r)));
                return hn::Mul(load_floats(d, above.row(r) + column, left), x);
            });
    });
}

// Blocks are fixed, so that the record's sum of squares has one order.
void add_gradient(Pool& pool, View<const float> values, const SumView& sum, GrainRecord* records) {
    const int64_t elements = sum.elements();
    pool.run(norm_blocks(elements), [&](int64_t block, int) HWY_ATTR {
        const int64_t first = block * kNormBlockElements;
        records[block] = {};
        add_values(values.data + first, std::min(kNormBlockElements, elements - first), sum, first, records[block]);
    });
    for (int64_t block = 0; block < norm_blocks(elements); ++block) {
        add_record(*sum.record, records[block]);
    }
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::cpu {
namespace {

// Room for one total per element of a gradient.
struct Totals {
    Arena::Block block;

    Totals(Arena& arena, const SumView& sum) : block(arena.take(column_sums_workspace_bytes(sum.elements()))) {}
    [[nodiscard]] float* data() const { return reinterpret_cast<float*>(block.data()); }
};

}  // namespace

void add_bias_grad(const Context& context, AnyConstView d_output, const SumView& d_bias) {
    const Totals totals(context.arena, d_bias);
    pick(context.set, N_SCALAR::add_bias_grad, N_AVX2::add_bias_grad, N_AVX3::add_bias_grad)(context.pool, d_output,
                                                                                             d_bias, totals.data());
}

void add_rms_norm_gain_grad(const Context& context, AnyConstView d_output, AnyConstView input,
                            View<const float> inverse_rms, const SumView& d_gain) {
    const Totals totals(context.arena, d_gain);
    pick(context.set, N_SCALAR::add_rms_norm_gain_grad, N_AVX2::add_rms_norm_gain_grad, N_AVX3::add_rms_norm_gain_grad)(
        context.pool, d_output, input, inverse_rms, d_gain, totals.data());
}

void add_layer_norm_gain_grad(const Context& context, AnyConstView d_output, View<const float> input,
                              View<const float> mean, View<const float> inverse_deviation, const SumView& d_gain) {
    const Totals totals(context.arena, d_gain);
    pick(context.set, N_SCALAR::add_layer_norm_gain_grad, N_AVX2::add_layer_norm_gain_grad,
         N_AVX3::add_layer_norm_gain_grad)(context.pool, d_output, input, mean, inverse_deviation, d_gain,
                                           totals.data());
}

void add_gradient(const Context& context, View<const float> values, const SumView& sum) {
    const Arena::Block scratch = context.arena.take(add_gradient_workspace_bytes(sum.elements()));
    pick(context.set, N_SCALAR::add_gradient, N_AVX2::add_gradient, N_AVX3::add_gradient)(
        context.pool, values, sum, reinterpret_cast<GrainRecord*>(scratch.data()));
}

}  // namespace accrue::cpu
#endif
