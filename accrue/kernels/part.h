#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace accrue {

// What a step's time is spent on.
enum class Part {
    products_forward,  // of the blocks
    products_input,    // gradients of their inputs
    products_weight,   // gradients of their weights
    attention,         // with the rotary positions
    loss_head,         // products with the vocabulary, cross entropy
    norms,
    elementwise,  // activations, bias gradients, lookups, casts, copies
    optimizer,    // norm of the gradient, update
};
inline constexpr int64_t kParts = 8;

// The part as a key: "products_forward".
[[nodiscard]] std::string_view name_of(Part part);

// A product whose outputs are as many as the vocabulary's words belongs to the loss head: kernels see shapes only.
[[nodiscard]] constexpr Part part_of_product(int64_t outputs, int64_t vocabulary, Part otherwise) {
    return outputs == vocabulary ? Part::loss_head : otherwise;
}

// What a part asks of the machine.
struct Work {
    double flops = 0;  // of products and attention, a multiplication and an addition being two
    double bytes = 0;  // read and written outside of the caches, if nothing of it stays there
};
using WorkByPart = std::array<Work, kParts>;

}  // namespace accrue
