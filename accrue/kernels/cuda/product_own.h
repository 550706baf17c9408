#pragma once

#include "accrue/kernels/cuda/product.h"
#include "accrue/kernels/cuda/tape.h"

namespace accrue::cuda {

// A product by our own kernels: any layouts, extents and strides, aligned or not. fp32 factors are multiplied by fmaf, narrow
// ones by tensor cores (sm_80 and newer), sums in fp32 along the depth in ascending order.
void put_own_product(Tape& tape, const Product& product);

}  // namespace accrue::cuda
