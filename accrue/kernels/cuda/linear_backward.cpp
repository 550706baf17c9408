#include "accrue/kernels/cuda/column_sums.h"
#include "accrue/kernels/cuda/linear_factors.h"
#include "accrue/kernels/cuda/linear_kernels.h"
#include "accrue/kernels/cuda/products.h"

namespace accrue::cuda {
namespace {

const void* moved(const void* place, int64_t elements, DType dtype) {
    return static_cast<const std::byte*>(place) + elements * bytes_of(dtype);
}

// The gradient of the input for some rows, by the outputs from `first` on.
Product input_product(const AnyConstView& d_output, const WeightView& weight, int64_t first, int64_t depth) {
    Product product{.dtype = d_output.dtype,
                    .rows = d_output.rows,
                    .columns = weight.in(),
                    .depth = depth,
                    .left = rows_of(d_output),
                    .right = inputs_of(weight)};
    product.left.data = moved(product.left.data, first, product.dtype);
    product.right.data =
        moved(product.right.data, product.right.along_depth ? first : first * product.right.stride, product.dtype);
    return product;
}

void put_sliced_rows(Context& context, const AnyConstView& d_output, const WeightView& weight,
                     const InputSlices& slices, const SliceRoom& room, const AnyView& d_input) {
    Product product = input_product(d_output, weight, 0, slices.depth);
    product.batch = slices.count;
    product.left.batch_stride = slices.depth;
    product.right.batch_stride = product.right.along_depth ? slices.depth : slices.depth * product.right.stride;
    product.output = room.values;
    product.output_stride = product.columns;
    product.output_batch_stride = room.apart;
    context.products.put(context.tape, product);
    const Product last = input_product(d_output, weight, slices.count * slices.depth, slices.rest);
    put_sum_of_slices(context.tape, room.values, room.apart, slices.count, product.dtype,
                      {.left = last.left.data,
                       .left_stride = last.left.stride,
                       .right = last.right.data,
                       .right_stride = last.right.stride,
                       .right_along_depth = last.right.along_depth,
                       .depth = slices.rest},
                      d_input);
}

void put_input_gradient(Context& context, const op::LinearBackward& call, Scratch scratch) {
    if (call.d_input.empty() || call.d_input.rows == 0) {
        return;
    }
    void* const narrow_weight = narrow_weight_room(scratch, call.weight, call.d_output.dtype);
    const WeightView weight = narrowed(context, call.weight, call.d_output.dtype, narrow_weight);
    const InputSlices slices = input_slices(weight.out());
    if (slices.count == 1) {
        Product product = input_product(call.d_output, weight, 0, weight.out());
        product.output = call.d_input.data;
        product.output_dtype = call.d_input.dtype;
        product.output_stride = call.d_input.stride;
        context.products.put(context.tape, product);
        return;
    }
    const SliceRoom room = slice_room(scratch, call, slices);
    for (int64_t first = 0; first < call.d_input.rows; first += room.rows) {
        const int64_t rows = std::min(room.rows, call.d_input.rows - first);
        put_sliced_rows(context, call.d_output.slice_rows(first, rows), weight, slices, room,
                        call.d_input.slice_rows(first, rows));
    }
}

// The weight gradients of one tensor: products of grains, one batch where grains and outputs lie evenly.
class WeightGradients {
public:
    WeightGradients(Context& context, const op::LinearBackward& call, const op::LinearSums& sums, Scratch scratch)
        : context_(context),
          call_(call),
          sums_(sums),
          scratch_(scratch),
          room_(gradient_room(scratch_, call, sums)),
          d_output_(call.d_output.slice_columns(sums.first_output, sums.outputs)) {}

    void put() {
        for (size_t grain = 0; grain < sums_.weight.size(); ++grain) {
            const SumView& sum = sums_.weight[grain];
            if (is_computed(call_.grains[grain], sum)) {
                add(grain, sum);
            } else if (sum.is_wanted()) {
                put_hold_rows(context_.tape, call_.held_of(grain), nullptr);
            }
        }
        finish_group();
    }

private:
    // Grains whose gradients are computed, then added together; all of them wait, or none does.
    void add(size_t grain, const SumView& sum) {
        const bool waits = may_wait(sum);
        if (waits != group_waits_ || (!waits && std::ssize(group_) == room_.grains)) {
            finish_group();
        }
        group_waits_ = waits;
        const float* const place = waits ? sum.waiting : room_.values + std::ssize(group_) * room_.apart;
        group_.push_back({.values = place, .sum = sum});
        grains_.push_back(grain);
    }

    void finish_group() {
        for (size_t first = 0; first < group_.size();) {
            const size_t count = even_grains(first);
            context_.products.put(context_.tape, product(first, count));
            first += count;
        }
        for (size_t i = 0; i < group_.size(); ++i) {
            put_hold_rows(context_.tape, call_.held_of(grains_[i]), const_cast<float*>(group_[i].values));
        }
        if (!group_.empty()) {
            Scratch rest = scratch_;
            add_gradients(context_, group_, rest);
        }
        group_.clear();
        grains_.clear();
    }

    [[nodiscard]] const RowRange& rows(size_t i) const { return call_.grains[grains_[i]]; }
    // Distances to the grain before.
    [[nodiscard]] int64_t rows_apart(size_t i) const { return rows(i).first - rows(i - 1).first; }
    [[nodiscard]] int64_t values_apart(size_t i) const { return group_[i].values - group_[i - 1].values; }

    // How many grains from `first` on have the same number of rows and lie evenly.
    [[nodiscard]] size_t even_grains(size_t first) const {
        size_t end = first + 1;
        while (end < group_.size() && rows(end).rows == rows(first).rows && rows_apart(end) == rows_apart(first + 1) &&
               values_apart(end) == values_apart(first + 1) && rows_apart(end) > 0 && values_apart(end) > 0) {
            ++end;
        }
        return end - first;
    }

    [[nodiscard]] Product product(size_t first, size_t count) const {
        const int64_t apart = count > 1 ? rows_apart(first + 1) : 0;
        Factor outputs = columns_of(d_output_.slice_rows(rows(first).first, rows(first).rows));
        Factor inputs = columns_of(call_.input.slice_rows(rows(first).first, rows(first).rows));
        outputs.batch_stride = apart * outputs.stride;
        inputs.batch_stride = apart * inputs.stride;
        const bool out_in = call_.weight.layout == WeightLayout::out_in;
        const int64_t columns = out_in ? call_.input.columns : sums_.outputs;
        return {.dtype = call_.d_output.dtype,
                .rows = out_in ? sums_.outputs : call_.input.columns,
                .columns = columns,
                .depth = rows(first).rows,
                .batch = static_cast<int64_t>(count),
                .left = out_in ? outputs : inputs,
                .right = out_in ? inputs : outputs,
                .output = const_cast<float*>(group_[first].values),
                .output_dtype = DType::fp32,
                .output_stride = columns,
                .output_batch_stride = count > 1 ? values_apart(first + 1) : 0};
    }

    Context& context_;
    const op::LinearBackward& call_;
    const op::LinearSums& sums_;
    Scratch scratch_;
    GradientRoom room_;
    AnyConstView d_output_;
    bool group_waits_ = false;
    std::vector<GrainGradient> group_;
    std::vector<size_t> grains_;
};

}  // namespace

void lower(Context& context, const op::LinearBackward& call, Scratch scratch) {
    put_input_gradient(context, call, scratch);
    for (const op::LinearSums& sums : call.sums) {
        if (!sums.weight.empty()) {
            WeightGradients(context, call, sums, scratch).put();
        }
        if (!sums.bias.empty()) {
            Scratch for_bias = scratch;
            add_column_sums(context, call.d_output.slice_columns(sums.first_output, sums.outputs), call.grains,
                            sums.bias, for_bias);
        }
    }
}

}  // namespace accrue::cuda
