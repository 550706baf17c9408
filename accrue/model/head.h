#pragma once

#include "accrue/model/linear.h"

namespace accrue {

// Which rows of a table a grain reads, with the memory that a LookupIndex points into.
struct Lookup {
    std::vector<int32_t> entries;
    std::vector<int32_t> first_place;
    std::vector<int32_t> places;

    explicit Lookup(std::span<const int32_t> ids);
    // The same, with an entry for each of `also` too, even where no place reads it.
    Lookup(std::span<const int32_t> ids, std::span<const int32_t> also);
    [[nodiscard]] LookupIndex index() const {
        return {.entries = entries, .first_place = first_place, .places = places};
    }
};

// A tied embedding's gradient has two sources. Its rows that a grain also looks up wait here between the head's product
// and the lookup, so that their sum is rounded once, without a second matrix of the vocabulary's size.
struct HeldEmbedding {
    std::vector<int32_t> slot_of_row;
    Leased<float> values;

    HeldEmbedding() = default;
    // `slots`: as many as the lookup could ever have, because the plan of a run must hold for any words.
    HeldEmbedding(Arena& arena, const Lookup& lookup, int64_t slots, int64_t vocabulary, int64_t width);
    [[nodiscard]] HeldRows rows() const { return {.slot_of_row = slot_of_row, .values = values.view}; }
};

// What the head reads and where it writes the loss of each row.
struct HeadRows {
    AnyConstView input;           // [rows, width]
    View<const int32_t> targets;  // [1, rows]
    View<float> losses;           // [1, rows]
};

// The loss of each row and, per grain, the gradients of the head's weight and of its input. Logits exist for
// `loss_rows` rows at a time, which changes no bits: the weight's gradient is one product over all rows of a grain,
// whose gradients of the logits all exist at once, in the dtype of the input.
//   d_input fp32 [rows, width]; held: one per grain when the embedding is tied, else empty.
void head_forward_backward(const Pass& pass, const LinearParameters& head, const HeadRows& rows, int64_t loss_rows,
                           std::span<const HeldEmbedding> held, View<float> d_input);

// The losses alone.
void head_losses(const Pass& pass, const LinearParameters& head, const HeadRows& rows, int64_t loss_rows);

}  // namespace accrue
