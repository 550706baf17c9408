// What goes wrong in a roster: members that are lost, and numbers that change on their way.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "accrue/dist/gloo_mesh.h"
#include "accrue/dist/members_testing.h"

namespace accrue::testing {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kMembers = 3;

// Of so many elements that each range takes two pieces.
constexpr int64_t kManyElements = 2'400'000;

double seconds_of(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// All but rank 1 add up their sums, must not get any, and must know within so many seconds why.
void expect_all_others_to_know(double seconds, const MeshOptions& options,
                               const std::function<void(std::unique_ptr<Mesh>&)>& rank_1) {
    const auto outcomes = in_roster(
        kMembers,
        [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
            if (rank == 1) {
                rank_1(mesh);
                return;
            }
            std::vector<int64_t> values = contribution(rank, kManyElements);
            const double took = seconds_of(
                [&] { EXPECT_THROW((void)mesh->add_up(sums_in(values), 0, commit_all), RosterChanged) << rank; });
            EXPECT_LT(took, seconds);
            EXPECT_EQ(values, contribution(rank, kManyElements)) << "the own sums have changed";
            EXPECT_THROW((void)mesh->add_up(sums_in(values), 0, commit_all), RosterChanged) << "it can be used again";
        },
        options);
    EXPECT_EQ(outcomes[0], Outcome::As::done);
    EXPECT_EQ(outcomes[2], Outcome::As::done);
}

// The limits of these are 30 s, so nobody has waited for one.
TEST(GlooLossTest, AMemberThatFailsInMidExchangeEndsItForAllAtOnce) {
    for (const int64_t pieces : {0, 1, 2, 3}) {
        expect_all_others_to_know(10, {}, [&](std::unique_ptr<Mesh>& mesh) {
            std::vector<int64_t> values(kManyElements);
            IntegerSums sums = sums_in(values);
            int64_t left = pieces;
            sums.read = [&](int64_t, std::span<int64_t>) {
                if (--left < 0) {
                    throw Error("the device is lost");
                }
            };
            EXPECT_THROW((void)mesh->add_up(sums, 0, commit_all), Error);
        });
    }
}

TEST(GlooLossTest, AMemberThatHasLeftEndsTheExchangeForAllAtOnce) {
    expect_all_others_to_know(10, {}, [](std::unique_ptr<Mesh>& mesh) { mesh.reset(); });
}

TEST(GlooLossTest, ASilentMemberEndsTheExchangeAfterTheLimit) {
    std::promise<void> others_know;
    std::atomic<int> missing = kMembers - 1;
    double first_waited = 0;  // seconds
    double last_waited = 0;
    const auto outcomes = in_roster(
        kMembers,
        [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
            if (rank == 1) {
                others_know.get_future().wait();
                return;
            }
            std::vector<int64_t> values = contribution(rank, 5000);
            const double took =
                seconds_of([&] { EXPECT_THROW((void)mesh->add_up(sums_in(values), 0, commit_all), RosterChanged); });
            (rank == 0 ? first_waited : last_waited) = took;
            EXPECT_LT(took, 10);
            EXPECT_EQ(values, contribution(rank, 5000));
            if (--missing == 0) {
                others_know.set_value();
            }
        },
        {.operation_limit = 300ms});
    EXPECT_EQ(outcomes, std::vector<Outcome>(3)) << "a member has failed";
    EXPECT_GE(std::max(first_waited, last_waited), 0.2) << "whoever came later may have waited less";
}

// The limits are 30 s. In the exchange, and before it.
TEST(GlooLossTest, WhoeverIsToldToGiveUpWaitsNoLonger) {
    for (const bool is_under_way : {true, false}) {
        std::promise<void> others_know;
        const auto outcomes = in_roster(2, [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
            if (rank == 1) {
                others_know.get_future().wait();
                return;
            }
            std::promise<void> begins;
            std::jthread coordinator([&] {
                begins.get_future().wait();
                mesh->give_up("a member is gone");
            });
            if (!is_under_way) {
                begins.set_value();
                coordinator.join();
            }
            std::vector<int64_t> values = contribution(rank, 5000);
            IntegerSums sums = sums_in(values);
            const double took = seconds_of([&] {
                if (is_under_way) {
                    begins.set_value();
                }
                EXPECT_THROW((void)mesh->add_up(sums, 0, commit_all), RosterChanged);
            });
            EXPECT_LT(took, 10);
            EXPECT_EQ(values, contribution(rank, 5000));
            others_know.set_value();
        });
        EXPECT_EQ(outcomes, std::vector<Outcome>(2)) << "a member has failed";
    }
}

// Between two windows too: whoever is at work knows at its next call.
TEST(GlooLossTest, AMemberThatFailsBeforeItCommitsEndsTheNextExchange) {
    std::latch all_are_asked(kMembers);
    const auto outcomes = in_roster(kMembers, [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
        std::vector<int64_t> values{rank};
        const auto commits = [&](const ExchangeChecks&) {
            all_are_asked.arrive_and_wait();
            return rank == 1 ? throw RosterChanged("the coordinator is gone") : true;
        };
        EXPECT_TRUE(mesh->add_up(sums_in(values), 0, commits));
        EXPECT_EQ(values[0], 3);
        (void)mesh->add_up(sums_in(values), 1, commit_all);
    });
    for (const Outcome& outcome : outcomes) {
        EXPECT_EQ(outcome, Outcome::As::roster_changed);
    }
}

TEST(GlooLossTest, ALostMemberEndsABroadcastForAllAtOnce) {
    for (const int64_t lost : {0, 1, 2}) {
        const auto outcomes = in_roster(kMembers, [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
            const auto fail_at_second = [&](int64_t first) {
                if (rank == lost && first > 0) {
                    throw RosterChanged("the device is lost");
                }
            };
            mesh->broadcast(
                0, 30'000'000, [&](int64_t first, std::span<std::byte>) { fail_at_second(first); },
                [&](int64_t first, std::span<const std::byte>) { fail_at_second(first); });
        });
        for (const Outcome& outcome : outcomes) {
            EXPECT_EQ(outcome, Outcome::As::roster_changed);
        }
    }
}

TEST(GlooConnectTest, AMemberThatDoesNotComeEndsConnecting) {
    MemoryStore store;
    const auto outcomes = each_in_a_thread(2, [&](int64_t rank) {
        const MeshDevice device;
        (void)connect_mesh(device, store, {.rank = rank, .size = 3, .connect_limit = 200ms});
    });
    EXPECT_EQ(outcomes[0], Outcome::As::roster_changed);
    EXPECT_EQ(outcomes[1], Outcome::As::roster_changed);
}

TEST(GlooConnectTest, TheEndOfARosterEndsConnecting) {
    MemoryStore store;
    const auto outcomes = each_in_a_thread(2, [&](int64_t rank) {
        if (rank == 1) {
            (void)store.get("mesh/0/7/0", 10s);
            store.end();
            return;
        }
        const MeshDevice device;
        (void)connect_mesh(device, store, {.roster = 7, .rank = 0, .size = 2, .connect_limit = 100s});
    });
    EXPECT_EQ(outcomes[0], Outcome::As::roster_changed);
    EXPECT_NE(outcomes[0].message.find("the roster has ended"), std::string::npos);
}

// Its address was that of a member of this roster before.
TEST(GlooConnectTest, AMemberOfAnotherRosterIsNotTakenForOneOfThis) {
    MemoryStore store;
    class OldKeys final : public KeyStore {
    public:
        explicit OldKeys(KeyStore& store) : store_(store) {}
        void set(const std::string& key, const std::string& value) override { store_.set(old(key), value); }
        std::string get(const std::string& key, std::chrono::milliseconds limit) override {
            return store_.get(old(key), limit);
        }

    private:
        static std::string old(std::string key) { return key.replace(key.find("/8/"), 3, "/7/"); }
        KeyStore& store_;
    };
    const auto outcomes = each_in_a_thread(2, [&](int64_t rank) {
        const MeshDevice device;
        OldKeys old_keys(store);
        KeyStore& keys = rank == 0 ? static_cast<KeyStore&>(store) : old_keys;
        (void)connect_mesh(device, keys, {.roster = 7 + rank, .rank = rank, .size = 2});
    });
    EXPECT_EQ(outcomes[0], Outcome::As::roster_changed);
    EXPECT_EQ(outcomes[1], Outcome::As::roster_changed);
}

// Who sees what as wrong in a window in which that happens; all others and the next attempt are without a fault.
WrongRanges seen_in(const Disturbance& disturbance) {
    std::vector<ExchangeChecks> first(kMembers);
    std::vector<ExchangeChecks> second(kMembers);
    MemoryStore store;
    const auto outcomes = each_in_a_thread(kMembers, [&](int64_t rank) {
        bool is_done = false;
        const auto disturb = once(disturbance, rank, is_done);
        const MeshDevice device;
        const auto mesh = connect_mesh(device, store, {.rank = rank, .size = kMembers, .disturb = disturb});
        std::vector<int64_t> values = contribution(rank, 10000, 1);
        const auto place = static_cast<size_t>(rank);
        EXPECT_FALSE(mesh->add_up(sums_in(values), 77, [&](const ExchangeChecks& checks) {
            first[place] = checks;
            return false;
        }));
        EXPECT_TRUE(is_done);
        EXPECT_TRUE(mesh->add_up(sums_in(values), 77, [&](const ExchangeChecks& checks) {
            second[place] = checks;
            return true;
        }));
        EXPECT_EQ(values, sum_of_contributions(kMembers, 10000, 1));
    });
    EXPECT_EQ(outcomes, std::vector<Outcome>(kMembers));
    EXPECT_EQ(wrong_in(second), WrongRanges{});
    return wrong_in(first);
}

const std::vector<NamedChange>& changes() {
    static const std::vector<NamedChange> kChanges = changes_on_the_way(10000);
    return kChanges;
}

// The owner gives its wrong total to everybody.
TEST(GlooDamageTest, AChangedContributionShowsToAllInTheRangeOfWhoeverAddedIt) {
    for (const auto& [name, change] : changes()) {
        const WrongRanges all_of_range_2{{0, 2}, {1, 2}, {2, 2}};
        EXPECT_EQ(seen_in({.of = Arrival::Of::contribution, .from_rank = 0, .to_rank = 2, .change = change}),
                  name == "nothing" ? WrongRanges{} : all_of_range_2)
            << name;
    }
}

TEST(GlooDamageTest, AChangedTotalShowsToWhoeverGotIt) {
    for (const auto& [name, change] : changes()) {
        const WrongRanges range_1_at_0{{0, 1}};
        EXPECT_EQ(seen_in({.of = Arrival::Of::total, .from_rank = 1, .to_rank = 0, .change = change}),
                  name == "nothing" ? WrongRanges{} : range_1_at_0)
            << name;
    }
}

TEST(GlooDamageTest, StateThatIsDamagedOnTheWayIsRefusedByEverybody) {
    for (const int64_t damaged : {1, 2}) {
        MemoryStore store;
        const auto outcomes = each_in_a_thread(kMembers, [&](int64_t rank) {
            const auto disturb = [&](const Arrival& arrival) {
                if (rank == damaged && arrival.first > 0) {
                    arrival.bytes.back() ^= std::byte{1};
                }
            };
            const MeshDevice device;
            const auto mesh = connect_mesh(device, store, {.rank = rank, .size = kMembers, .disturb = disturb});
            mesh->broadcast(
                0, 5'000'000, [](int64_t, std::span<std::byte> into) { std::ranges::fill(into, std::byte{7}); },
                [](int64_t, std::span<const std::byte>) {});
        });
        for (const Outcome& outcome : outcomes) {
            EXPECT_EQ(outcome, Outcome::As::roster_changed);
            EXPECT_EQ(outcome.message, "state was damaged on the way from rank 0 to rank " + std::to_string(damaged));
        }
    }
}

}  // namespace
}  // namespace accrue::testing
