#include "accrue/dist/gloo_mesh.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <numeric>
#include <string>
#include <system_error>
#include <thread>

#include <gtest/gtest.h>

#include "accrue/base/clock.h"
#include "accrue/base/random.h"
#include "accrue/dist/exchange_cost.h"
#include "accrue/dist/members_testing.h"

namespace accrue::testing {
namespace {

class GlooMeshTest : public ::testing::TestWithParam<int64_t> {
protected:
    [[nodiscard]] int64_t size() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Members, GlooMeshTest, ::testing::Values(1, 2, 3, 5));

// A range is exchanged in pieces of 4 MiB: the last of these sizes takes several of each member.
TEST_P(GlooMeshTest, EverybodyHoldsThePlainSum) {
    expect_all_done(in_roster(size(), [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
        int64_t window = 0;
        for (const int64_t elements : {0, 1, 7, 1023, 1024, 1025, 100003, 2'700'001}) {
            std::vector<int64_t> values = contribution(rank, elements, ++window);
            EXPECT_TRUE(mesh->add_up(sums_in(values), static_cast<uint64_t>(window), commit_all));
            EXPECT_EQ(values, sum_of_contributions(size(), elements, window)) << elements << " elements";
        }
    }));
}

TEST_P(GlooMeshTest, SumsWrapAround) {
    expect_all_done(in_roster(size(), [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
        constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
        std::vector<int64_t> values(2000, rank == 0 ? kMost - std::max<int64_t>(size() - 2, 0) : 1);
        EXPECT_TRUE(mesh->add_up(sums_in(values), 0, commit_all));
        const int64_t wrapped = size() == 1 ? kMost : std::numeric_limits<int64_t>::min();
        EXPECT_EQ(values, std::vector<int64_t>(2000, wrapped));
    }));
}

// Each sends the others' ranges once, and its own range to each of them; beside that go only notices of what is about to be done.
TEST_P(GlooMeshTest, SentBytesAreThoseThatWereForetold) {
    constexpr int64_t kElements = 100003;
    constexpr int64_t kMostOfNotices = 100;  // to each of the others
    const ExchangeCost cost = cost_of_exchange(kElements, size());
    std::vector<int64_t> sent(static_cast<size_t>(size()));
    expect_all_done(in_roster(size(), [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
        std::vector<int64_t> values = contribution(rank, kElements);
        const int64_t before = mesh->sent_bytes();
        EXPECT_TRUE(mesh->add_up(sums_in(values), 0, commit_all));
        sent[static_cast<size_t>(rank)] = mesh->sent_bytes() - before;
    }));
    const int64_t notices = kMostOfNotices * (size() - 1);
    EXPECT_GE(*std::ranges::max_element(sent), cost.sent_bytes);
    EXPECT_LE(*std::ranges::max_element(sent), cost.sent_bytes + notices);
    const int64_t all = std::accumulate(sent.begin(), sent.end(), int64_t{0});
    EXPECT_GE(all, cost.all_sent_bytes);
    EXPECT_LE(all, cost.all_sent_bytes + notices * size());
}

TEST_P(GlooMeshTest, WhatDoesNotCommitWritesNothingAndIsDoneAgain) {
    expect_all_done(in_roster(size(), [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
        std::vector<int64_t> values = contribution(rank, 5000);
        IntegerSums sums = sums_in(values);
        sums.write = [](int64_t, std::span<const int64_t>) { FAIL() << "written before it was committed"; };
        EXPECT_FALSE(mesh->add_up(sums, 3, [](const ExchangeChecks&) { return false; }));
        EXPECT_EQ(values, contribution(rank, 5000));
        EXPECT_TRUE(mesh->add_up(sums_in(values), 3, commit_all));
        EXPECT_EQ(values, sum_of_contributions(size(), 5000));
    }));
}

TEST_P(GlooMeshTest, ABroadcastReachesEverybodyWhoeverSendsIt) {
    expect_all_done(in_roster(size(), [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
        int64_t from_rank = 0;
        for (const int64_t bytes : {0, 1, 4095, 9'000'001}) {
            const auto byte_at = [&](int64_t place) {
                return static_cast<std::byte>(mix(static_cast<uint64_t>(place / 1000 + from_rank)) + place);
            };
            int64_t written = 0;
            const auto read = [&](int64_t first, std::span<std::byte> into) {
                EXPECT_EQ(rank, from_rank);
                for (size_t i = 0; i < into.size(); ++i) {
                    into[i] = byte_at(first + static_cast<int64_t>(i));
                }
            };
            const auto write = [&](int64_t first, std::span<const std::byte> from) {
                EXPECT_EQ(first, written);
                for (const std::byte byte : from) {
                    ASSERT_EQ(byte, byte_at(written)) << written;
                    ++written;
                }
            };
            mesh->broadcast(from_rank, bytes, read, write);
            EXPECT_EQ(written, rank == from_rank ? 0 : bytes);
            from_rank = (from_rank + 1) % size();
        }
    }));
}

int64_t running_threads() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

// Of all that is open what connections are made of: a sanitizer opens pipes when it likes.
int64_t open_connections() {
    int64_t count = 0;
    for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code was_closed_meanwhile;
        const std::string what = std::filesystem::read_symlink(file, was_closed_meanwhile).string();
        count += what.starts_with("socket:") || what.starts_with("anon_inode:") ? 1 : 0;
    }
    return count;
}

// Four pairs at a time. Nobody waits for the other before it leaves, and nobody minds.
TEST(GlooMeshManyTest, TwoHundredRostersLeaveNoThreadsAndNoConnectionsBehind) {
    const std::vector<MeshDevice> devices(8);
    const int64_t threads = running_threads();
    const int64_t connections = open_connections();
    std::array<MemoryStore, 4> stores;
    expect_all_done(each_in_a_thread(8, [&](int64_t number) {
        for (int64_t roster = 1; roster <= 50; ++roster) {
            const auto mesh =
                connect_mesh(devices[static_cast<size_t>(number)], stores[static_cast<size_t>(number / 2)],
                             {.roster = roster, .rank = number % 2, .size = 2});
            EXPECT_GT(open_connections(), connections);
            std::vector<int64_t> values{number % 2 + 1};
            EXPECT_TRUE(mesh->add_up(sums_in(values), 0, commit_all));
            EXPECT_EQ(values[0], 3);
        }
    }));
    // A thread that was waited for may still be listed, and a device's thread may still close what a mesh has left.
    const auto start = Clock::now();
    while ((running_threads() > threads || open_connections() > connections) && seconds_since(start) < 60) {
        std::this_thread::yield();
    }
    EXPECT_LE(running_threads(), threads);
    EXPECT_LE(open_connections(), connections);
}

TEST(GlooMeshErrorTest, DifferentNumbersOfElementsAreAnErrorForBoth) {
    const auto outcomes = in_roster(2, [](int64_t rank, std::unique_ptr<Mesh>& mesh) {
        std::vector<int64_t> values(rank == 0 ? 12 : 10);
        (void)mesh->add_up(sums_in(values), 5, commit_all);
    });
    ASSERT_EQ(outcomes[0], Outcome::As::error);
    ASSERT_EQ(outcomes[1], Outcome::As::error);
    EXPECT_EQ(outcomes[0].message,
              "rank 1 is about to add up 10 elements with seed 5, but rank 0 to add up 12 elements with seed 5: all "
              "workers must train the same model with the same settings");
}

TEST(GlooMeshErrorTest, DifferentCallsAreAnErrorForBoth) {
    const auto outcomes = in_roster(2, [](int64_t rank, std::unique_ptr<Mesh>& mesh) {
        std::vector<int64_t> values(10);
        if (rank == 0) {
            mesh->broadcast(0, 80, nullptr, nullptr);
        } else {
            (void)mesh->add_up(sums_in(values), 5, commit_all);
        }
    });
    ASSERT_EQ(outcomes[0], Outcome::As::error);
    ASSERT_EQ(outcomes[1], Outcome::As::error);
    EXPECT_NE(outcomes[1].message.find("rank 0 is about to take 80 bytes of rank 0"), std::string::npos);
}

TEST(GlooMeshErrorTest, ABroadcastOfAnotherSizeThanExpectedIsAnErrorForBoth) {
    const auto outcomes = in_roster(2, [](int64_t rank, std::unique_ptr<Mesh>& mesh) {
        const auto write = [](int64_t, std::span<const std::byte>) { FAIL() << "written"; };
        mesh->broadcast(
            0, rank == 0 ? 80 : 88, [](int64_t, std::span<std::byte>) {}, write);
    });
    ASSERT_EQ(outcomes[0], Outcome::As::error);
    ASSERT_EQ(outcomes[1], Outcome::As::error);
    EXPECT_NE(outcomes[1].message.find("80 bytes of rank 0, but rank 1 to take 88"), std::string::npos);
}

TEST(GlooMeshErrorTest, AnAddressOfNoneOfThisMachinesInterfacesIsRefused) {
    const auto refusal_of = [](const std::string& address) {
        try {
            const MeshDevice device(address);
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    for (const std::string address : {"127.0.0.1", "127.0.0.2", "localhost"}) {
        EXPECT_EQ(refusal_of(address), "");
    }
    for (const std::string address : {"192.0.2.1", "0.0.0.0", "::2"}) {
        EXPECT_TRUE(refusal_of(address).starts_with("cannot meet other workers at '" + address +
                                                    "': it is none of this machine's addresses. They are: "));
        EXPECT_NE(refusal_of(address).find("127.0.0.1"), std::string::npos);
    }
    // So long that nobody is asked for it.
    EXPECT_TRUE(refusal_of(std::string(300, 'x')).starts_with("cannot meet other workers at 'xxx"));
}

TEST(GlooMeshErrorTest, ARankOutsideOfTheRosterIsRefused) {
    const MeshDevice device;
    MemoryStore store;
    EXPECT_THROW((void)connect_mesh(device, store, {.rank = 2, .size = 2}), Error);
}

}  // namespace
}  // namespace accrue::testing
