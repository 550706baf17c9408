#pragma once

#include "accrue/model/linear.h"

namespace accrue {

// What the head reads and where it writes the loss of each row.
struct HeadRows {
    AnyConstView input;           // [rows, width]
    View<const int32_t> targets;  // [1, rows]
    View<float> losses;           // [1, rows]
};

// The loss of each row and, per grain, the gradients of the head's weight and of its input. Logits exist for
// `loss_rows` rows at a time, which changes no bits: the weight's gradient is one product over all rows of a grain,
// whose gradients of the logits all exist at once, in the dtype of the input.
//   d_input fp32 [rows, width]
//   held    one per grain when the embedding is tied, else none: a tied embedding's gradient has two sources, and its rows
//           that a grain also looks up wait between the head's product and the lookup, so that their sum is rounded once,
//           without a second matrix of the vocabulary's size
void head_forward_backward(const Pass& pass, const LinearParameters& head, const HeadRows& rows, int64_t loss_rows,
                           std::span<const HeldRows> held, View<float> d_input);

// The losses alone.
void head_losses(const Pass& pass, const LinearParameters& head, const HeadRows& rows, int64_t loss_rows);

}  // namespace accrue
