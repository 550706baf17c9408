#include <mutex>
#include <set>

#include <gtest/gtest.h>

#include "accrue/dist/gpu_exchange.h"
#include "accrue/dist/members_testing.h"

namespace accrue::testing {
namespace {

// As on a machine where they have none, or share one.
TEST(GpuMeetingTest, WhereOneHasNoGpuSumsPassThroughTheHostForAll) {
    constexpr int64_t kMembers = 3;
    std::mutex mutex;
    std::set<std::string> said;
    expect_all_done(in_roster(kMembers, [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
        GpuMeeting meeting;
        const std::string way = meeting.meet(*mesh, rank, kMembers);
        {
            const std::lock_guard lock(mutex);
            said.insert(way);
        }
        std::vector<int64_t> values = contribution(rank, 5000);
        IntegerSums sums = sums_in(values);
        sums.on_device = std::as_writable_bytes(std::span(values));
        EXPECT_TRUE(mesh->add_up(sums, 1, commit_all));
        EXPECT_EQ(values, sum_of_contributions(kMembers, 5000));
    }));
    EXPECT_EQ(said,
              std::set<std::string>{"sums pass through the host (not all workers have NCCL and a GPU of their own)"});
}

TEST(GpuMeetingTest, AMemberAloneHasNobodyToMeet) {
    expect_all_done(in_roster(1, [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
        GpuMeeting meeting;
        EXPECT_EQ(meeting.meet(*mesh, rank, 1), "");
    }));
}

}  // namespace
}  // namespace accrue::testing
