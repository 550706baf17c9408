#include "accrue/assess/device_ceilings.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "accrue/base/clock.h"
#include "accrue/base/random.h"
#include "accrue/kernels/dry/dry_kernels.h"

namespace accrue {
namespace {

constexpr double kBurstSeconds = 0.02;
constexpr int kCopies = 6;

int64_t matrix_bytes(const DeviceCeilings::Sizes& sizes, DType dtype) {
    return sizes.product * sizes.product * bytes_of(dtype);
}

int64_t memory_bytes(const DeviceCeilings::Sizes& sizes, DType dtype) {
    const auto array = sizes.copied_floats * static_cast<int64_t>(sizeof(float));
    return std::max(3 * matrix_bytes(sizes, dtype), 2 * array);
}

op::Linear product_in(std::byte* memory, const DeviceCeilings::Sizes& sizes, DType dtype) {
    const auto matrix = [&](int64_t number) {
        return AnyView(memory + number * matrix_bytes(sizes, dtype), dtype, sizes.product, sizes.product);
    };
    return {.input = matrix(0), .weight = {.matrix = matrix(1)}, .bias = {}, .output = matrix(2)};
}

op::Cast copy_in(std::byte* memory, const DeviceCeilings::Sizes& sizes) {
    auto* const floats = reinterpret_cast<float*>(memory);
    return {.input = View<const float>(floats, 1, sizes.copied_floats),
            .dropout = {},
            .output = View<float>(floats + sizes.copied_floats, 1, sizes.copied_floats)};
}

// What the arena must hold, found as for a run: by a device that computes nothing.
int64_t arena_bytes(const DeviceChoice& device, int threads, DType dtype, const DeviceCeilings::Sizes& sizes) {
    Arena arena = Arena::dry();
    DryKernels kernels(arena, make_workspace(device, threads));
    const Arena::Block memory = arena.take(memory_bytes(sizes, dtype));
    kernels.run(product_in(memory.data(), sizes, dtype));
    kernels.run(copy_in(memory.data(), sizes));
    return arena.high_water_bytes();
}

// Products of fp32 are ten times slower on a GPU.
DeviceCeilings::Sizes usual_sizes(DType dtype) {
    return dtype == DType::fp32 ? DeviceCeilings::Sizes{.product = 4096} : DeviceCeilings::Sizes{};
}

}  // namespace

DeviceCeilings::DeviceCeilings(const DeviceChoice& device, Pool& pool, DType dtype)
    : DeviceCeilings(device, pool, dtype, usual_sizes(dtype)) {}

DeviceCeilings::DeviceCeilings(const DeviceChoice& device, Pool& pool, DType dtype, const Sizes& sizes)
    : sizes_(sizes),
      dtype_(dtype),
      arena_(make_backing(device, arena_bytes(device, pool.threads(), dtype, sizes))),
      kernels_(make_kernels(device, pool, arena_)),
      memory_(arena_.take(memory_bytes(sizes, dtype))) {
    fill_with_noise();
}

// Of zeros, products take less power and are faster than of any data.
void DeviceCeilings::fill_with_noise() {
    constexpr uint64_t kSeed = 0x6365696c696e6773;
    constexpr int64_t kPiece = int64_t{1} << 20;
    std::vector<Bf16> bf16(kPiece);
    std::vector<Fp16> fp16(kPiece);
    std::vector<float> fp32(kPiece);
    for (size_t i = 0; i < fp32.size(); ++i) {
        fp32[i] = uniform(mix(kSeed, i)) - 0.5F;
        bf16[i] = Bf16(fp32[i]);
        fp16[i] = Fp16(fp32[i]);
    }
    const std::span<const std::byte> bytes = dtype_ == DType::fp32   ? std::as_bytes(std::span(fp32))
                                             : dtype_ == DType::bf16 ? std::as_bytes(std::span(bf16))
                                                                     : std::as_bytes(std::span(fp16));
    for (int64_t first = 0; first < 2 * matrix_bytes(sizes_, dtype_);) {
        const auto some = static_cast<size_t>(std::min(std::ssize(bytes), 2 * matrix_bytes(sizes_, dtype_) - first));
        upload(*kernels_, bytes.first(some), memory_.data() + first);
        first += static_cast<int64_t>(some);
    }
}

double DeviceCeilings::seconds_of(const Operation& operation, int64_t times) {
    std::vector<float> last(1);
    const auto start = Clock::now();
    for (int64_t i = 0; i < times; ++i) {
        kernels_->run(operation);
    }
    download(*kernels_, reinterpret_cast<const float*>(memory_.data()), std::span(last));  // when all of it is done
    return seconds_since(start);
}

double DeviceCeilings::product_rate() {
    const op::Linear product = product_in(memory_.data(), sizes_, dtype_);
    const double once = std::min(seconds_of(product, 1), seconds_of(product, 1));  // the first time it is prepared
    const auto times = static_cast<int64_t>(std::ceil(kBurstSeconds / once));
    const double flops = 2 * std::pow(static_cast<double>(sizes_.product), 3);
    return flops * static_cast<double>(times) / seconds_of(product, times);
}

double DeviceCeilings::copy_bandwidth() {
    const op::Cast copy = copy_in(memory_.data(), sizes_);
    double best = seconds_of(copy, 1);
    for (int i = 0; i < kCopies; ++i) {
        best = std::min(best, seconds_of(copy, 4) / 4);
    }
    return 2.0 * static_cast<double>(sizes_.copied_floats) * sizeof(float) / best;
}

}  // namespace accrue
