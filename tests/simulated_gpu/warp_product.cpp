#include "tests/simulated_gpu/warp_product.h"

namespace accrue::simulated {

void multiply_add(WarpMatrices& matrices) {
    double right[16][8];
    for (int k = 0; k < 16; ++k) {
        for (int column = 0; column < 8; ++column) {
            right[k][column] = static_cast<double>(matrices.right[k][column]);
        }
    }
    for (int row = 0; row < 16; ++row) {
        double sums[8];
        for (int column = 0; column < 8; ++column) {
            sums[column] = static_cast<double>(matrices.sums[row][column]);
        }
        for (int k = 0; k < 16; ++k) {
            const auto left = static_cast<double>(matrices.left[row][k]);
            for (int column = 0; column < 8; ++column) {
                sums[column] += left * right[k][column];
            }
        }
        for (int column = 0; column < 8; ++column) {
            matrices.sums[row][column] = static_cast<float>(sums[column]);
        }
    }
}

}  // namespace accrue::simulated
