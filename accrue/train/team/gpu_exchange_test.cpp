// An exchange on the GPU that is here, if there is one, real or simulated, with a member alone: what it checks is what a processor
// would.
#include "accrue/dist/gpu_exchange.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "accrue/base/pool.h"
#include "accrue/base/random.h"
#include "accrue/dist/linear_check.h"
#include "accrue/kernels/device.h"
#include "accrue/kernels/gpu_checks.h"
#include "accrue/kernels/gpus.h"
#include "accrue/tensor/arena.h"

namespace accrue {
namespace {

TEST(GpuExchangeTest, ChecksOnAGpuAreThoseOfAProcessor) {
    if (gpus_of_machine().found.empty() || !why_no_nccl().empty()) {
        GTEST_SKIP() << "no GPU, or no NCCL: " << why_no_nccl();
    }
    constexpr uint64_t kSeed = 11;
    const DeviceChoice device{.name = DeviceKind::cuda};
    for (const int64_t elements : {1, 255, 65'537, 200'003}) {
        std::vector<int64_t> values(static_cast<size_t>(elements));
        std::ranges::generate(values, [n = uint64_t{0}]() mutable { return static_cast<int64_t>(mix(++n)); });
        const int64_t room = gpu_exchange_room(elements, kGpuCheckParts);
        Arena arena(make_backing(device, (int64_t{192} << 20) + elements * 8 + room));
        Pool pool(1);
        const auto kernels = make_kernels(device, pool, arena);
        const Arena::Block sums = arena.take(elements * 8);
        const Arena::Block memory = arena.take(room);
        auto* const on_gpu = reinterpret_cast<int64_t*>(sums.data());
        upload(*kernels, std::span<const int64_t>(values), on_gpu);
        const IntegerSums all{.elements = elements,
                              .read =
                                  [&](int64_t first, std::span<int64_t> into) {
                                      download(*kernels, static_cast<const int64_t*>(on_gpu) + first, into);
                                  },
                              .write = {},
                              .on_device = {sums.data(), static_cast<size_t>(elements * 8)}};
        const auto alone = connect_gpus({.memory = {memory.data(), static_cast<size_t>(room)},
                                         .check = {.parts = kGpuCheckParts, .enqueue = enqueue_gpu_check}},
                                        new_nccl_meeting(), 0, 1, [] {});
        const ExchangeChecks checks = alone->add_up(all, kSeed, [] {});
        const std::vector<uint64_t> expected = {linear_check(values, 0, kSeed)};
        EXPECT_EQ(checks.given, expected) << elements << " elements";
        EXPECT_EQ(checks.total, expected) << elements << " elements";
        upload(*kernels, std::span<const int64_t>(std::vector<int64_t>(values.size())), on_gpu);
        alone->write(all);
        std::vector<int64_t> written(values.size());
        all.read(0, written);
        EXPECT_EQ(written, values);
    }
}

}  // namespace
}  // namespace accrue
