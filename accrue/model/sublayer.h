#pragma once

#include "accrue/model/sublayers.h"

// What the two sublayers of a block have in common: a norm and a product at their entrance, and a product whose output is
// added to the residual stream.
namespace accrue {

// The gradient that flows into a product from the residual stream, in the dtype products take and through the same
// mask. In fp32 without dropout it is the stream itself.
class StreamGradient {
public:
    StreamGradient(Kernels& kernels, DType dtype, const Dropout& dropout, const StreamBack& d_stream)
        : gradient_{.view = d_stream.exact} {
        if (dropout.probability == 0 && !d_stream.rounded.empty()) {
            gradient_ = {.view = d_stream.rounded, .is_summed = d_stream.is_summed};
        } else if (dtype != DType::fp32 || dropout.probability > 0) {
            own_ = take_any_matrix(kernels.arena(), dtype, d_stream.exact.rows, d_stream.exact.columns);
            kernels.run(op::Cast{.input = d_stream.exact, .dropout = dropout, .output = own_.view});
            gradient_.view = own_.view;
        }
    }
    [[nodiscard]] const OutputGradient& gradient() const { return gradient_; }

private:
    LeasedAny own_;
    OutputGradient gradient_;
};

struct Entrance {
    const NormParameters& norm;
    const LinearParameters& product;
    const LinearParameters* before;  // whose output was last added to the stream; nothing: the embedding
};

[[nodiscard]] NormSaved lease_entrance_norm(const Block& block, const Entrance& entrance, int64_t rows, Keep keep);
// output = product(norm(input)); where `activated` is not empty, it gets the activation of the output.
void entrance_forward(const Block& block, const Entrance& entrance, const NormSaved& saved, View<const float> input,
                      AnyView output, AnyView activated = {});
// From the gradient of that output: the gradients of the weights, and what is added to the stream's.
void entrance_backward(const Block& block, const Entrance& entrance, NormSaved& saved, View<const float> input,
                       const OutputGradient& d_output, const StreamBack& d_stream);

}  // namespace accrue
