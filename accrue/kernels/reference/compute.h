#pragma once

#include "accrue/kernels/operations.h"

// The specification: each operation as the shortest correct loops, on one thread, sums in double and results rounded to
// fp32, then to the dtype of the view. Takes nothing from an arena: attention keeps some rows on the heap, nothing else
// needs scratch.
namespace accrue::reference {

void compute(const op::Linear& call);
void compute(const op::LinearResidual& call);
void compute(const op::LinearActivation& call);
void compute(const op::LinearBackward& call);
void compute(const op::RmsNorm& call);
void compute(const op::LayerNorm& call);
void compute(const op::RmsNormBackward& call);
void compute(const op::LayerNormBackward& call);
void compute(const op::Rope& call);
void compute(const op::RopeGrad& call);
void compute(const op::Attention& call);
void compute(const op::AttentionGrad& call);
void compute(const op::Gelu& call);
void compute(const op::GeluGrad& call);
void compute(const op::Swiglu& call);
void compute(const op::SwigluGrad& call);
void compute(const op::Embed& call);
void compute(const op::AddLookupGrad& call);
void compute(const op::CrossEntropy& call);
void compute(const op::GrainLosses& call);
void compute(const op::SquaredNorm& call);
void compute(const op::UpdateAdamW& call);
void compute(const op::UpdateSgd& call);
void compute(const op::UpdateAdamW8Bit& call);
void compute(const op::UpdateSgd8Bit& call);
void compute(const op::Cast& call);
void compute(const op::FillZero& call);
void compute(const op::Upload& call);
void compute(const op::Download& call);
void compute(const op::AddGradient& call);
void compute(const op::AddSums& call);
void compute(const op::CompleteSums& call);

}  // namespace accrue::reference
