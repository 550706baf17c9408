#pragma once

#include <array>
#include <cstddef>
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
[[nodiscard]] constexpr std::string_view name_of(Part part) {
    constexpr std::array<std::string_view, kParts> kNames = {"products_forward", "products_input", "products_weight",
                                                             "attention",        "loss_head",      "norms",
                                                             "elementwise",      "optimizer"};
    return kNames[static_cast<size_t>(part)];
}

// What a part asks of the machine.
struct Work {
    double flops = 0;  // of products and attention, a multiplication and an addition being two
    double bytes = 0;  // read and written outside of the caches, if nothing of it stays there
};

struct WorkByPart : std::array<Work, kParts> {
    void add(Part part, double flops, int64_t bytes) {
        Work& work = at(static_cast<size_t>(part));
        work.flops += flops;
        work.bytes += static_cast<double>(bytes);
    }
    [[nodiscard]] double flops() const {
        double sum = 0;
        for (const Work& work : *this) {
            sum += work.flops;
        }
        return sum;
    }
};

}  // namespace accrue
