#include "accrue/kernels/cuda/product_own.cuh"
#include "accrue/kernels/cuda/product_own.h"

namespace accrue::cuda {

void put_own_product(Tape& tape, const Product& product) {
    if (product.rows == 0 || product.columns == 0 || product.batch == 0) {
        return;
    }
    if (product.dtype == DType::fp32) {
        own::put_fp32_product(tape, product);
    } else {
        own::put_narrow_product(tape, product);
    }
}

}  // namespace accrue::cuda
