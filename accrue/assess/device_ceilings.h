#pragma once

#include <cstdint>
#include <memory>

#include "accrue/base/pool.h"
#include "accrue/kernels/device.h"
#include "accrue/tensor/dtype.h"

namespace accrue {

// What a device could do at most, found by what it can be asked to do through Kernels: for a GPU, of which nothing else is
// known. Has an arena and kernels of its own, so that it measures beside whatever else lies on the device.
class DeviceCeilings {
public:
    // Large enough that no GPU's caches hold them, and that their first and last tiles weigh nothing.
    struct Sizes {
        int64_t product = 8192;                      // rows and columns of all three matrices
        int64_t copied_floats = int64_t{128} << 20;  // of each of two arrays
    };
    // `dtype`: of the products.
    DeviceCeilings(const DeviceChoice& device, Pool& pool, DType dtype);
    DeviceCeilings(const DeviceChoice& device, Pool& pool, DType dtype, const Sizes& sizes);

    // Floating-point operations a second of products, over some 20 ms.
    [[nodiscard]] double product_rate();
    // Bytes a second, read and written, of copies; the best of several.
    [[nodiscard]] double copy_bandwidth();

private:
    [[nodiscard]] double seconds_of(const Operation& operation, int64_t times);
    void fill_with_noise();

    Sizes sizes_;
    DType dtype_;
    Arena arena_;
    std::unique_ptr<Kernels> kernels_;
    Arena::Block memory_;
};

}  // namespace accrue
