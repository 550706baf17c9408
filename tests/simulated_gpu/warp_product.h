#pragma once

namespace accrue::simulated {

// What a warp multiplies together.
struct WarpMatrices {
    float left[16][16];
    float right[16][8];
    float sums[16][8];
};

// sums += left * right: the 16 products, and the sum they are added to, in double, then rounded once. Tensor cores do about
// that; the error of their own sums differs from one architecture to the next.
void multiply_add(WarpMatrices& matrices);

}  // namespace accrue::simulated
