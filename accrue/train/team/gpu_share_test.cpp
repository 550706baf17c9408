#include "accrue/train/team/gpu_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/kernels/gpus.h"
#include "accrue/model/families.h"

namespace accrue {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(GpuPlacesTest, EachWorkerHasAGpuOfItsOwnAsLongAsThereAreAny) {
    GpuPlaces places({0, 1, 3});
    EXPECT_EQ(places.place_of("a", {"a"}), 0);
    EXPECT_EQ(places.place_of("b", {"a", "b"}), 1);
    EXPECT_EQ(places.place_of("c", {"a", "b", "c"}), 3);
    EXPECT_EQ(places.place_of("d", {"a", "b", "c", "d"}), 0);
    EXPECT_EQ(places.place_of("b", {"a", "b", "c", "d"}), 1) << "who asks again";
}

TEST(GpuPlacesTest, WhoTakesTheDeadOnesPlaceTakesItsGpu) {
    GpuPlaces places({0, 1});
    (void)places.place_of("a", {"a"});
    (void)places.place_of("b", {"a", "b"});
    EXPECT_EQ(places.place_of("c", {"a", "c"}), 1);
    EXPECT_EQ(places.place_of("d", {"c", "d"}), 0);
}

// Of a GPU that is not here, so that nothing is asked of the machine.
TEST(GpuShareTest, WorkersOfAGpuShareWhatTheLeaderLeaves) {
    const DeviceName elsewhere(DeviceKind::cuda, 1000);
    const int64_t leader = gpu_bytes_beside_an_arena(elsewhere);
    EXPECT_GT(leader, 500 * kMiB);
    const MemoryBound budget{.bytes = leader + 3000 * kMiB, .reason = "compute.memory is 3.5 GiB", .address_bytes = 0};
    const MemoryBound share = share_of_gpu(elsewhere, 3, budget);
    EXPECT_EQ(share.bytes, 1000 * kMiB);
    EXPECT_THAT(share.reason, HasSubstr("compute.memory is 3.5 GiB, of which the run's leader has "));
    EXPECT_THAT(share.reason, HasSubstr("and each of 3 worker(s) on it 1000.00 MiB"));
    EXPECT_EQ(share_of_gpu(elsewhere, 3, {.bytes = leader - 1, .reason = "", .address_bytes = 0}).bytes, 0);
}

TEST(GpuShareTest, SumsThatPassThroughTheHostMustHaveRoomThere) {
    const auto model = known_families().shaped("tiny", {.layers = 2}, {});
    EXPECT_NO_THROW(require_host_room(*model, 1));
    constexpr int64_t kMoreThanFit = int64_t{1} << 40;
    EXPECT_THROW(require_host_room(*model, kMoreThanFit), Error);
}

}  // namespace
}  // namespace accrue
