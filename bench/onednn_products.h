#pragma once

#include <cstdint>
#include <string>

#include "accrue/base/pool.h"
#include "accrue/tensor/view.h"

namespace accrue {

// The three products of a linear layer by oneDNN, in the way that would keep the law: one-threaded primitives on fixed
// tiles, handed out by our pool. weight is [out, in]; output and d_input have the dtype of the inputs.
void onednn_forward(Pool& pool, AnyConstView input, AnyConstView weight, AnyView output);
void onednn_input_grad(Pool& pool, AnyConstView d_output, AnyConstView weight, AnyView d_input);
// Each tile goes to a thread's own memory in fp32 and from there, rounded to units, to the sums.
void onednn_weight_grad(Pool& pool, AnyConstView d_output, AnyConstView input, double per_unit, View<int64_t> sums);

// To be called before any of them: keeps oneDNN from instructions that it would not survive on this machine, and says which;
// empty = it may use all.
[[nodiscard]] std::string limit_onednn();

}  // namespace accrue
