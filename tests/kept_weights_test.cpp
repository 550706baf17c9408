// Workers that share the fp32 weights: each has what forward reads, and of the fp32 only what it keeps.

#include <algorithm>
#include <deque>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/dist/in_process_link.h"
#include "accrue/dist/members_testing.h"
#include "accrue/model/families.h"
#include "accrue/train/team/shared_parts.h"
#include "accrue/train/team/shared_state.h"

namespace accrue::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kLongest = 32;

// Nobody is asked anything here.
class NoAnswers final : public Answers {
public:
    [[nodiscard]] std::string answer(const std::string& /*worker*/, const std::string& subject,
                                     const std::string& /*question*/) override {
        throw Error(cat("nobody answers \"", subject, "\""));
    }
};

std::shared_ptr<const ModelSpec> model() {
    return known_families().shaped("tiny", {.layers = 2, .width = 48, .heads = 2, .key_heads = 2, .ffn = 700}, {});
}

Settings settings() {
    Settings settings;
    settings.window.grain_samples = 1;
    settings.compute.dtype = DType::bf16;
    return settings;
}

struct Place {
    explicit Place(const StateSharing& sharing) : engine(settings(), model(), kLongest, *kernels, {}, sharing) {}

    Pool pool{1};
    DeviceChoice device = device_of({});
    Arena arena{make_backing(device, int64_t{256} << 20)};
    std::unique_ptr<Kernels> kernels = make_kernels(device, pool, arena);
    Engine engine;
};

// One of several that share the state.
struct Member {
    Member(CoordinatorDesk& desk, Answers& answers, const StateSharing& sharing, int64_t rank)
        : place(sharing),
          membership(std::to_string(rank)),
          link(desk, answers, std::to_string(rank)),
          linked(link, membership),
          shared(place.engine, linked, sharing) {
        Roster roster;
        roster.rank = rank;
        membership.enter(roster);
    }

    Place place;
    Membership membership;
    InProcessLink link;
    LinkedWorkers linked;
    SharedState shared;
};

class KeptWeightsTest : public ::testing::Test {
protected:
    static constexpr StateSharing kSharing{.ranges = 3, .copies = 2};

    KeptWeightsTest() : weights_(static_cast<size_t>(model()->parameters().flat_elements)) {
        initialize_weights(model()->parameters(), 7, weights_);
        for (int64_t rank = 0; rank < kSharing.ranges; ++rank) {
            members_.emplace_back(desk_, answers_, kSharing, rank);
        }
    }
    // As a leader gives them, in packets of any size.
    void fill(int64_t rank, Mesh& mesh) {
        constexpr size_t kPacket = 10'004;
        SharedState& shared = members_[static_cast<size_t>(rank)].shared;
        ASSERT_TRUE(shared.begin(rank, kSharing.ranges));
        const auto all = std::as_bytes(std::span(weights_));
        for (size_t first = 0; first < all.size(); first += kPacket) {
            shared.write(all.subspan(first, std::min(kPacket, all.size() - first)), 0, static_cast<int64_t>(first));
        }
        shared.complete(mesh);
    }
    [[nodiscard]] Engine& engine_of(int64_t rank) { return members_[static_cast<size_t>(rank)].place.engine; }
    // Changes the last bit of a weight that this member keeps without owning it.
    void damage_kept(int64_t rank) {
        Engine& engine = engine_of(rank);
        const int64_t range = second_range_of(rank);
        float* const place = reinterpret_cast<float*>(kept_weights_of(engine, range).front().data());
        auto bits = downloaded(engine.kernels, View<const uint32_t>(reinterpret_cast<uint32_t*>(place), 1, 1)).front();
        bits ^= 1U;
        upload(engine.kernels, std::span<const uint32_t>(&bits, 1), reinterpret_cast<uint32_t*>(place));
    }
    [[nodiscard]] static int64_t second_range_of(int64_t rank) {
        const RangeKeepers keepers = first_keepers(kSharing, kSharing.ranges).value();
        const auto range =
            std::ranges::find_if(keepers, [&](const std::vector<int64_t>& each) { return each.at(1) == rank; });
        return range - keepers.begin();
    }

    CoordinatorDesk desk_{{.least_workers = kSharing.ranges}};
    NoAnswers answers_;
    std::vector<float> weights_;
    std::deque<Member> members_;
};

TEST_F(KeptWeightsTest, EverybodyReadsWhatOneProcessWould) {
    Place whole(StateSharing{});
    whole.engine.put_weights()(0, weights_);
    whole.engine.refresh_copy();
    expect_all_done(in_roster(kSharing.ranges, [&](int64_t rank, std::unique_ptr<Mesh>& mesh) { fill(rank, *mesh); }));
    for (int64_t rank = 0; rank < kSharing.ranges; ++rank) {
        Engine& engine = engine_of(rank);
        EXPECT_TRUE(engine.shares_master());
        EXPECT_EQ(engine.weights_hash(), engine_of(0).weights_hash());
        const ParameterList& list = engine.model->parameters();
        int64_t shared = 0;
        for (int64_t index = 0; index < list.count(); ++index) {
            const auto copy_of = [&](Engine& of) {
                return downloaded(of.kernels, View<const uint16_t>(static_cast<const uint16_t*>(of.weights.copy.data) +
                                                                       list[index].offset,
                                                                   1, list[index].elements()));
            };
            EXPECT_EQ(copy_of(engine), copy_of(whole.engine)) << list[index].name;
            const View<const float> master = engine.master_of(index);
            if (master.data == nullptr) {
                ++shared;
                EXPECT_TRUE(list[index].is_matrix());
                continue;
            }
            EXPECT_EQ(downloaded(engine.kernels, master),
                      downloaded(whole.engine.kernels, View<const float>(whole.engine.master_of(index))))
                << list[index].name;
        }
        EXPECT_GT(shared, 0);
        EXPECT_LT(shared, list.count());
    }
}

TEST_F(KeptWeightsTest, TheLeaderReadsTheFp32ThatItWrote) {
    expect_all_done(in_roster(kSharing.ranges, [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
        fill(rank, *mesh);
        SharedState& shared = members_[static_cast<size_t>(rank)].shared;
        EXPECT_TRUE(shared.is_shared_part(0));
        std::string all;
        const auto bytes = static_cast<int64_t>(weights_.size() * sizeof(float));
        constexpr int64_t kPiece = 300'004;
        for (int64_t first = 0; first < bytes; first += kPiece) {
            all += shared.read(*mesh, 0, first, std::min(kPiece, bytes - first));
        }
        EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(all)), std::as_bytes(std::span(weights_))));
    }));
}

// Two values of fp32 may be one in bf16, so that what is gathered says nothing.
TEST_F(KeptWeightsTest, ABitThatOneKeeperHasOtherwiseIsNamed) {
    const std::vector<Outcome> outcomes = in_roster(kSharing.ranges, [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
        fill(rank, *mesh);
        if (rank == 1) {
            damage_kept(rank);
        }
        SharedState& shared = members_[static_cast<size_t>(rank)].shared;
        members_[static_cast<size_t>(rank)].linked.use(*mesh);
        shared.begin_update();
        shared.gather_weights(*mesh);
    });
    EXPECT_EQ(outcomes[0], Outcome::As::done);
    EXPECT_EQ(outcomes[2], Outcome::As::done);
    EXPECT_EQ(outcomes[1], Outcome::As::error);
    EXPECT_THAT(outcomes[1].message, HasSubstr(cat("this worker has other weights of range ", second_range_of(1))));
}

// 4 bytes of what is read in fp32, 2 of each parameter's copy, and 12 of two of eight parts.
TEST_F(KeptWeightsTest, AWorkerHoldsOnlyItsPart) {
    const auto held = [](const StateSharing& sharing) {
        const Place place(sharing);
        return static_cast<double>(place.arena.bytes_in_use() - place.engine.sum.source().size());
    };
    const ParameterList& list = model()->parameters();
    const auto all = static_cast<double>(list.flat_elements);
    const auto read = static_cast<double>(places_beside_copy(list).elements);
    const double largest_places = 2 * (all / 8 + 2.0 * kRangeBlock);  // ranges end with blocks
    const double beside = held({}) - 14 * all;                        // tables
    EXPECT_LE(held({.ranges = 8, .copies = 2}) - beside, 4 * read + 2 * all + 12 * largest_places);
    EXPECT_LT(held({.ranges = 8, .copies = 2}), 0.6 * held({}));
}

}  // namespace
}  // namespace accrue::testing
