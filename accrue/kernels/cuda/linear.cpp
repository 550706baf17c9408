#include "accrue/kernels/cuda/linear_factors.h"
#include "accrue/kernels/cuda/linear_kernels.h"
#include "accrue/kernels/cuda/products.h"

namespace accrue::cuda {
namespace {

struct LinearBias {
    View<const float> bias;
    AnyConstView narrow;
};

// The bias as the library takes it, of the output's dtype. Where nobody has it, it is made: the same bits either way.
const void* library_bias(Context& context, const LinearBias& bias, DType output, void* room) {
    if (output == DType::fp32) {
        if (is_aligned(bias.bias.data)) {
            return bias.bias.data;
        }
        context.tape.copy(room, bias.bias.data, bias.bias.columns * bytes_of(output));
        return room;
    }
    if (!bias.narrow.empty() && bias.narrow.dtype == output && is_aligned(bias.narrow.data)) {
        return bias.narrow.data;
    }
    const AnyView rounded(room, output, 1, bias.bias.columns);
    lower(context, op::Cast{.input = bias.bias, .dropout = {}, .output = rounded}, Scratch());
    return room;
}

Product forward_product(const AnyConstView& input, const WeightView& weight, View<const float> bias,
                        const AnyView& output) {
    return {.dtype = input.dtype,
            .rows = output.rows,
            .columns = weight.out(),
            .depth = weight.in(),
            .left = rows_of(input),
            .right = outputs_of(weight),
            .output = output.data,
            .output_dtype = output.dtype,
            .output_stride = output.stride,
            .bias = bias.data};
}

void put_forward(Context& context, Product product, const LinearBias& bias, void* bias_room) {
    if (product.bias != nullptr && context.products.is_for_library(product)) {
        product.library_bias = library_bias(context, bias, product.output_dtype, bias_room);
    }
    context.products.put(context.tape, product);
}

}  // namespace

void lower(Context& context, const op::Linear& call, Scratch scratch) {
    if (call.output.rows == 0) {
        return;
    }
    const LinearRoom room = linear_room(scratch, call.weight, call.bias, call.input.dtype);
    const WeightView weight = narrowed(context, call.weight, call.input.dtype, room.weight);
    put_forward(context, forward_product(call.input, weight, call.bias, call.output), {call.bias, call.narrow_bias},
                room.bias);
}

void lower(Context& context, const op::LinearResidual& call, Scratch scratch) {
    if (call.output.rows == 0) {
        return;
    }
    const LinearRoom room = linear_room(scratch, call.weight, call.bias, call.input.dtype);
    const WeightView weight = narrowed(context, call.weight, call.input.dtype, room.weight);
    Product product = forward_product(call.input, weight, call.bias, call.output);
    const bool drops = call.dropout.probability > 0;
    if (!drops) {
        product.residual = call.residual.data;
        product.residual_stride = call.residual.stride;
    }
    put_forward(context, product, {call.bias, {}}, room.bias);
    if (drops) {
        put_drop_and_add(context.tape, call.dropout, call.residual, call.output);
    }
}

// Recomputed activations must have the same bits, so the activation is never the library's.
void lower(Context& context, const op::LinearActivation& call, Scratch scratch) {
    lower(context, call.product(), scratch);
    if (call.activation == op::Activation::gelu) {
        lower(context, op::Gelu{.input = call.hidden, .output = call.activated}, Scratch());
    } else {
        lower(context, op::Swiglu{.gate_up = call.hidden, .output = call.activated}, Scratch());
    }
}

}  // namespace accrue::cuda
