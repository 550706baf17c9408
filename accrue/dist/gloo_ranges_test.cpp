// Sums of which each member keeps some ranges.

#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

#include "accrue/base/random.h"
#include "accrue/dist/gloo_mesh.h"
#include "accrue/dist/members_testing.h"

namespace accrue::testing {
namespace {

// One member's ranges, and memory for what it keeps.
class Sharing {
public:
    Sharing(int64_t elements, const RangeKeepers& keepers, int64_t rank) : memory_(keepers.size()) {
        shared.ranges = cut_into_ranges(std::vector<FlatTensor>{{0, elements}}, elements, std::ssize(keepers));
        shared.keepers = keepers;
        shared.totals.resize(keepers.size());
        for (const int64_t range : ranges_kept_by(keepers, rank)) {
            const auto number = static_cast<size_t>(range);
            memory_[number].resize(static_cast<size_t>(shared.ranges[number].count), -1);
            shared.totals[number] = memory_[number];
        }
    }
    // Where everybody gave contribution(rank, ...).
    void expect_sums(int64_t members, int64_t elements, int64_t window) const {
        const std::vector<int64_t> sums = sum_of_contributions(members, elements, window);
        for (size_t range = 0; range < shared.ranges.size(); ++range) {
            if (!memory_[range].empty()) {
                EXPECT_TRUE(std::ranges::equal(
                    memory_[range],
                    std::span(sums).subspan(static_cast<size_t>(shared.ranges[range].first), memory_[range].size())))
                    << "range " << range;
            }
        }
    }

    SharedRanges shared;

private:
    std::vector<std::vector<int64_t>> memory_;
};

class GlooRangesTest : public ::testing::TestWithParam<int64_t> {
protected:
    [[nodiscard]] int64_t size() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Members, GlooRangesTest, ::testing::Values(1, 2, 3, 5));

// The last of these sizes takes several pieces of a range.
TEST_P(GlooRangesTest, EveryKeeperHoldsThePlainSum) {
    for (const StateSharing& sharing :
         {StateSharing{.ranges = size(), .copies = 2}, StateSharing{.ranges = 1, .copies = 1},
          StateSharing{.ranges = 2 * size(), .copies = 3}}) {
        const RangeKeepers keepers = first_keepers(sharing, size()).value();
        std::vector<std::vector<ExchangeChecks>> checks(4, std::vector<ExchangeChecks>(static_cast<size_t>(size())));
        expect_all_done(in_roster(size(), [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
            int64_t window = 0;
            for (const int64_t elements : {1, 40'000, 100'003, 2'700'001}) {
                Sharing mine(elements, keepers, rank);
                std::vector<int64_t> values = contribution(rank, elements, window);
                checks[static_cast<size_t>(window)][static_cast<size_t>(rank)] =
                    mesh->reduce(sums_in(values), mine.shared, static_cast<uint64_t>(window));
                mine.expect_sums(size(), elements, window);
                EXPECT_EQ(values, contribution(rank, elements, window)) << "the own sums have changed";
                ++window;
            }
        }));
        for (const auto& window : checks) {
            EXPECT_EQ(wrong_in(window), WrongRanges{});
        }
    }
}

// 8 bytes for each element and member: those of the others' ranges to their owners, those of the own to the second keeper.
TEST_P(GlooRangesTest, SentBytesAreThoseOfAReduceAndASecondCopy) {
    if (size() == 1) {
        return;
    }
    constexpr int64_t kElements = 50 * kRangeBlock;
    const RangeKeepers keepers = first_keepers({.ranges = size(), .copies = 2}, size()).value();
    std::vector<int64_t> sent(static_cast<size_t>(size()));
    expect_all_done(in_roster(size(), [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
        Sharing mine(kElements, keepers, rank);
        std::vector<int64_t> values = contribution(rank, kElements);
        const int64_t before = mesh->sent_bytes();
        (void)mesh->reduce(sums_in(values), mine.shared, 1);
        sent[static_cast<size_t>(rank)] = mesh->sent_bytes() - before;
    }));
    for (const int64_t bytes : sent) {
        EXPECT_NEAR(static_cast<double>(bytes), 8.0 * kElements, 0.08 * kElements) << "a hundredth for words";
    }
}

TEST_P(GlooRangesTest, EverybodyHearsWhatAllTell) {
    expect_all_done(in_roster(size(), [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
        for (const size_t length : {size_t{0}, size_t{3}, size_t{1'000'000}}) {
            const auto words_of = [&](int64_t each) {
                return std::string(static_cast<size_t>(each) * length, static_cast<char>('a' + each));
            };
            const std::vector<std::string> told = mesh->tell_all(words_of(rank));
            ASSERT_EQ(std::ssize(told), size());
            for (int64_t each = 0; each < size(); ++each) {
                EXPECT_EQ(told[static_cast<size_t>(each)], words_of(each));
                EXPECT_EQ(mesh->tell(each, each == rank ? words_of(rank) : ""), words_of(each));
            }
        }
    }));
}

// Of owners with several sources, with none, and with nothing in them.
TEST_P(GlooRangesTest, EverybodyGathersWhatOwnersHave) {
    const int64_t last = size() - 1;
    const std::vector<GatherSource> sources = {{0, 9'000'001}, {last, 17}, {0, 0}, {last, 5'000'000}, {size() / 2, 1}};
    const auto value_at = [](size_t source, int64_t place) {
        return static_cast<std::byte>(mix(source, static_cast<uint64_t>(place)));
    };
    std::vector<int64_t> sent(static_cast<size_t>(size()));
    expect_all_done(in_roster(size(), [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
        std::vector<int64_t> came(sources.size());
        mesh->gather(
            sources,
            [&](size_t source, int64_t first, std::span<std::byte> into) {
                EXPECT_EQ(sources[source].from_rank, rank);
                for (size_t i = 0; i < into.size(); ++i) {
                    into[i] = value_at(source, first + static_cast<int64_t>(i));
                }
            },
            [&](size_t source, int64_t first, std::span<const std::byte> from) {
                EXPECT_NE(sources[source].from_rank, rank);
                EXPECT_EQ(first, came[source]) << "in order";
                came[source] += std::ssize(from);
                EXPECT_EQ(from.front(), value_at(source, first));
                EXPECT_EQ(from.back(), value_at(source, first + std::ssize(from) - 1));
            });
        for (size_t source = 0; source < sources.size(); ++source) {
            EXPECT_EQ(came[source], sources[source].from_rank == rank ? 0 : sources[source].bytes);
        }
        sent[static_cast<size_t>(rank)] = mesh->sent_bytes();
    }));
    int64_t all = 0;
    for (const int64_t bytes : sent) {
        all += bytes;
    }
    EXPECT_NEAR(static_cast<double>(all), 14e6 * static_cast<double>(size() - 1), 1e5);
}

constexpr int64_t kSharers = 4;
constexpr int64_t kSharedElements = 12 * kRangeBlock;

// Who sees what as wrong, where each range is kept by its owner and by another.
WrongRanges wrong_after(const Disturbance& disturbance) {
    const RangeKeepers keepers = {{0, 1}, {1, 2}, {2, 3}, {3, 0}};
    std::vector<ExchangeChecks> checks(kSharers);
    MemoryStore store;
    expect_all_done(each_in_a_thread(kSharers, [&](int64_t rank) {
        bool is_done = false;
        const auto disturb = once(disturbance, rank, is_done);
        const MeshDevice device;
        const auto mesh = connect_mesh(device, store, {.rank = rank, .size = kSharers, .disturb = disturb});
        Sharing mine(kSharedElements, keepers, rank);
        std::vector<int64_t> values = contribution(rank, kSharedElements, 1);
        checks[static_cast<size_t>(rank)] = mesh->reduce(sums_in(values), mine.shared, 77);
        EXPECT_TRUE(is_done);
        (void)mesh->reduce(sums_in(values), mine.shared, 77);
        mine.expect_sums(kSharers, kSharedElements, 1);
    }));
    return wrong_in(checks);
}

// The owner passes on its wrong sum, and all others take its word for it.
TEST(GlooRangeFaultsTest, AChangedContributionShowsToAllInTheRangeOfWhoeverAddedIt) {
    for (const auto& [name, change] : changes_on_the_way(kSharedElements)) {
        const WrongRanges all_of_range_2{{0, 2}, {1, 2}, {2, 2}, {3, 2}};
        EXPECT_EQ(wrong_after({.of = Arrival::Of::contribution, .from_rank = 0, .to_rank = 2, .change = change}),
                  name == "nothing" ? WrongRanges{} : all_of_range_2)
            << name;
    }
}

// Both keepers must hold the sum: nobody else is at fault.
TEST(GlooRangeFaultsTest, AChangedCopyShowsToTheSecondKeeper) {
    for (const auto& [name, change] : changes_on_the_way(kSharedElements)) {
        const WrongRanges range_1_at_2{{2, 1}};
        EXPECT_EQ(wrong_after({.of = Arrival::Of::total, .from_rank = 1, .to_rank = 2, .change = change}),
                  name == "nothing" ? WrongRanges{} : range_1_at_2)
            << name;
    }
}

TEST(GlooRangeFaultsTest, DamagedWeightsAreRefusedByEverybody) {
    MemoryStore store;
    const auto outcomes = each_in_a_thread(3, [&](int64_t rank) {
        const auto disturb = [&](const Arrival& arrival) {
            if (rank == 2 && arrival.of == Arrival::Of::state && arrival.from_rank == 1) {
                arrival.bytes.back() ^= std::byte{1};
            }
        };
        const MeshDevice device;
        const auto mesh = connect_mesh(device, store, {.rank = rank, .size = 3, .disturb = disturb});
        mesh->gather(
            std::vector<GatherSource>{{0, 100}, {1, 5'000'000}},
            [](size_t, int64_t, std::span<std::byte> into) { std::ranges::fill(into, std::byte{7}); },
            [](size_t, int64_t, std::span<const std::byte>) {});
    });
    for (const Outcome& outcome : outcomes) {
        EXPECT_EQ(outcome, Outcome::As::roster_changed);
        EXPECT_EQ(outcome.message, "state was damaged on the way from rank 1 to rank 2");
    }
}

TEST(GlooRangeFaultsTest, DamagedWordsAreRefused) {
    MemoryStore store;
    const auto outcomes = each_in_a_thread(2, [&](int64_t rank) {
        const auto disturb = [&](const Arrival& arrival) {
            if (rank == 1) {
                arrival.bytes.front() ^= std::byte{1};
            }
        };
        const MeshDevice device;
        const auto mesh = connect_mesh(device, store, {.rank = rank, .size = 2, .disturb = disturb});
        (void)mesh->tell_all("words");
        (void)mesh->tell_all("more");
    });
    EXPECT_EQ(outcomes[0], Outcome::As::roster_changed);
    EXPECT_EQ(outcomes[1], Outcome::As::roster_changed);
    EXPECT_EQ(outcomes[1].message, "words were damaged on the way from rank 0 to rank 1");
}

TEST(GlooRangeFaultsTest, MembersWithOtherKeepersAreRefused) {
    const auto outcomes = in_roster(2, [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
        Sharing mine(1000, rank == 0 ? RangeKeepers{{0}} : RangeKeepers{{1}}, rank);
        std::vector<int64_t> values(1000);
        (void)mesh->reduce(sums_in(values), mine.shared, 1);
    });
    for (const Outcome& outcome : outcomes) {
        EXPECT_EQ(outcome, Outcome::As::error);
    }
}

// The limits of these are 30 s, so nobody has waited for one.
TEST(GlooRangeFaultsTest, AMemberThatIsGoneEndsItForAllAtOnce) {
    const RangeKeepers keepers = first_keepers({.ranges = 3, .copies = 2}, 3).value();
    for (const int64_t pieces : {0, 1, 2}) {
        const auto outcomes = in_roster(3, [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
            Sharing mine(2'400'000, keepers, rank);
            std::vector<int64_t> values(2'400'000);
            IntegerSums sums = sums_in(values);
            int64_t left = pieces;
            if (rank == 1) {
                sums.read = [&](int64_t, std::span<int64_t>) {
                    if (--left < 0) {
                        throw RosterChanged("killed");
                    }
                };
            }
            (void)mesh->reduce(sums, mine.shared, 1);
        });
        for (const Outcome& outcome : outcomes) {
            EXPECT_EQ(outcome, Outcome::As::roster_changed);
        }
    }
}

}  // namespace
}  // namespace accrue::testing
