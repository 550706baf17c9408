#pragma once

#include <memory>
#include <vector>

#include "accrue/kernels/cpu/instruction_set.h"
#include "accrue/kernels/cpu/packing.h"
#include "accrue/kernels/cpu/product_plan.h"
#include "accrue/kernels/kernels.h"

namespace accrue::cpu {

// A matrix product: lanes of the left side are rows of the result, lanes of the right side are its columns.
struct Product {
    Operand left;
    Operand right;
    ProductShape shape;
};

// Where a result is stored: output = product (+ bias), or residual + dropout(product + bias) where a residual is given.
struct StoredResult {
    AnyView output;
    View<const float> bias;
    Dropout dropout;
    View<const float> residual;
};

// Where a result is added as one grain's gradient, except for the rows held back.
struct AddedResult {
    SumView sum;
    HeldRows held;
    bool turned = false;  // columns of the product are rows of the sum
};

// Computes a product with all threads. Each element's bits depend only on its own lanes (product-inl.h); the record of
// an added result is summed per cell of the output, in order. Takes product_workspace_bytes from the arena.
void multiply(const Context& context, const Product& product, const StoredResult& result);
void multiply(const Context& context, const Product& product, const AddedResult& result);

// A product that waits to be computed together with the next one. Keeps its scratch memory until it is destroyed.
class StartedProduct {
public:
    StartedProduct() = default;
    virtual ~StartedProduct() = default;
    StartedProduct(const StartedProduct&) = delete;
    StartedProduct& operator=(const StartedProduct&) = delete;

    // What is left to do, in pieces that know nothing of each other.
    [[nodiscard]] virtual int64_t items() const = 0;
    virtual void run_item(int64_t item, int thread) = 0;
    // The sum that it adds to, if any. Products that add to the same one must not run together.
    [[nodiscard]] virtual const void* sum() const = 0;
    // Completes the sum's record, when all items are done.
    virtual void finish() = 0;
};
using StartedProducts = std::vector<std::unique_ptr<StartedProduct>>;

// Prepares a product like multiply, and leaves the largest part of it to be run. Until then its operands must stay.
[[nodiscard]] std::unique_ptr<StartedProduct> start(const Context& context, const Product& product,
                                                    const AddedResult& result);

// Runs what was started, and with it another product: threads go on from one to the next without waiting for each other.
// Returns the share of their time that what was started took.
double multiply(const Context& context, StartedProducts started, const Product& product, const StoredResult& result);
void run(const Context& context, StartedProducts started);

}  // namespace accrue::cpu
