#pragma once

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

}  // namespace accrue::cpu
