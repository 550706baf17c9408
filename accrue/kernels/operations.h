#pragma once

#include <variant>

#include "accrue/kernels/operation/activations.h"
#include "accrue/kernels/operation/attention.h"
#include "accrue/kernels/operation/moving.h"
#include "accrue/kernels/operation/norms.h"
#include "accrue/kernels/operation/optimizer.h"
#include "accrue/kernels/operation/products.h"
#include "accrue/kernels/operation/tables.h"

namespace accrue {

// Everything that the hardware can be asked to do. Each operation is a contract: what it is given, and what comes out; it
// can check that, and count its work. `reference` is the shortest correct form of each.
//
// Holds for all of them, unless said otherwise:
// - Views lie on the device. Outputs are overwritten, except that what says += adds. Outputs overlap no input.
// - "any" views are fp32 or bf16; the views of one product share one dtype, except outputs, which may be either, and
//   weights (WeightView).
// - Products and sums in fp32 or wider; a stored value is rounded once, to the dtype of its view, nearest-even.
// - Each element of a result depends only on the values that its formula names: bits repeat for any number of threads,
//   and a row's bits do not depend on the rows around it. Weight gradients see exactly the rows of one grain.
// - Zero rows are allowed. Scratch memory comes from the device's arena and goes back before the call returns.
// - Spans lie on the host, and are read before the call returns.
using Operation =
    std::variant<op::Linear, op::LinearResidual, op::LinearActivation, op::LinearBackward,                 //
                 op::RmsNorm, op::LayerNorm, op::RmsNormBackward, op::LayerNormBackward,                   //
                 op::Rope, op::RopeGrad, op::Attention, op::AttentionGrad,                                 //
                 op::Gelu, op::GeluGrad, op::Swiglu, op::SwigluGrad,                                       //
                 op::Embed, op::AddLookupGrad, op::CrossEntropy, op::GrainLosses,                          //
                 op::SquaredNorm, op::UpdateAdamW, op::UpdateSgd, op::UpdateAdamW8Bit, op::UpdateSgd8Bit,  //
                 op::Cast, op::FillZero, op::Upload, op::Download, op::AddGradient, op::AddSums, op::CompleteSums>;

}  // namespace accrue
