// Workers that share the fp32 weights: each has what forward reads, and of the fp32 only what it keeps.

#include <algorithm>
#include <deque>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/random.h"
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

// An engine, and all that it stands on.
struct Place {
    explicit Place(const StateSharing& sharing) : engine(settings(), model(), kLongest, *kernels, {}, sharing) {}

    Pool pool{1};
    DeviceChoice device = device_of({});
    Arena arena{make_backing(device, int64_t{64} << 20)};
    std::unique_ptr<Kernels> kernels = make_kernels(device, pool, arena);
    Engine engine;
};

// One of several that share the state.
struct Member {
    Member(CoordinatorDesk& desk, Answers& answers, const StateSharing& sharing, const std::string& name)
        : place(sharing),
          membership(name),
          link(desk, answers, name),
          linked(link, membership),
          shared(place.engine, linked, sharing) {}

    // Its rank in what follows.
    void enter(int64_t rank, Mesh& mesh) {
        Roster roster;
        roster.rank = rank;
        membership.enter(roster);
        linked.use(mesh);
    }
    // As a leader gives the weights to all members, in packets of any size.
    void fill(int64_t rank, int64_t members, std::span<const float> weights, Mesh& mesh) {
        constexpr size_t kPacket = 10'004;
        enter(rank, mesh);
        if (!shared.begin(rank, members)) {
            throw Error("too few members");
        }
        const auto all = std::as_bytes(weights);
        for (size_t first = 0; first < all.size(); first += kPacket) {
            shared.write(all.subspan(first, std::min(kPacket, all.size() - first)), 0, static_cast<int64_t>(first));
        }
        shared.complete(mesh);
        has_state = true;
    }

    Place place;
    Membership membership;
    InProcessLink link;
    LinkedWorkers linked;
    SharedState shared;
    bool has_state = false;
};

std::vector<float> fresh_weights() {
    std::vector<float> weights(static_cast<size_t>(model()->parameters().flat_elements));
    initialize_weights(model()->parameters(), 7, weights);
    return weights;
}

std::vector<std::byte> bytes_at(Engine& engine, std::span<const std::byte> device) {
    std::vector<std::byte> host(device.size());
    download(engine.kernels, device.data(), std::span(host));
    return host;
}

std::span<const std::byte> bytes_in(const AnyConstView& row) {
    return {static_cast<const std::byte*>(row.data), static_cast<size_t>(row.elements() * bytes_of(row.dtype))};
}

// What one process has, which has all.
void expect_same_weights(Engine& engine, Engine& whole) {
    const auto expect_same = [&](std::span<const std::byte> here, std::span<const std::byte> there) {
        EXPECT_TRUE(bytes_at(engine, here) == bytes_at(whole, there));
    };
    for (const Parameter& parameter : engine.model->parameters().parameters) {
        const auto copy_of = [&](const Engine& of) {
            return bytes_in(of.weights.copy.slice_columns(parameter.offset, parameter.elements()));
        };
        expect_same(copy_of(engine), copy_of(whole));
    }
    for (const Engine::MasterPiece& piece : engine.masters()) {
        expect_same(bytes_in(piece.values),
                    bytes_in(whole.weights.master.slice_columns(piece.first, piece.values.columns)));
    }
    const std::vector<StoredMoment> all = whole.optimizer->moments();
    const std::vector<StoredMoment> kept = engine.optimizer->moments();
    for (size_t moment = 0; moment < kept.size(); ++moment) {
        for (const StoredMoment::Part& part : kept[moment].parts) {
            const auto same = std::ranges::find(all[moment].parts, part.tensor, &StoredMoment::Part::tensor);
            expect_same(part.device_bytes,
                        same->device_bytes.subspan(static_cast<size_t>(part.offset), part.device_bytes.size()));
        }
    }
}

class KeptWeightsTest : public ::testing::Test {
protected:
    static constexpr StateSharing kSharing{.ranges = 3, .copies = 2};

    KeptWeightsTest() {
        for (int64_t rank = 0; rank < kSharing.ranges; ++rank) {
            members_.emplace_back(desk_, answers_, kSharing, std::to_string(rank));
        }
    }
    void fill(int64_t rank, Mesh& mesh) {
        members_[static_cast<size_t>(rank)].fill(rank, kSharing.ranges, weights_, mesh);
    }
    [[nodiscard]] Engine& engine_of(int64_t rank) { return members_[static_cast<size_t>(rank)].place.engine; }
    // Changes the last bit of a weight that this member keeps without owning it.
    void damage_kept(int64_t rank) {
        Engine& engine = engine_of(rank);
        std::byte* const first = kept_weights_of(engine, second_range_of(rank)).front().data();
        std::byte changed = bytes_at(engine, {first, 1}).front() ^ std::byte{1};
        upload(engine.kernels, std::span<const std::byte>(&changed, 1), first);
    }
    [[nodiscard]] static int64_t second_range_of(int64_t rank) {
        const RangeKeepers keepers = first_keepers(kSharing, kSharing.ranges).value();
        const auto range =
            std::ranges::find_if(keepers, [&](const std::vector<int64_t>& each) { return each.at(1) == rank; });
        return range - keepers.begin();
    }

    CoordinatorDesk desk_{{.least_workers = kSharing.ranges}};
    NoAnswers answers_;
    std::vector<float> weights_ = fresh_weights();
    std::deque<Member> members_;
};

TEST_F(KeptWeightsTest, EverybodyReadsWhatOneProcessWould) {
    Place whole(StateSharing{});
    whole.engine.put_weights()(0, weights_);
    whole.engine.refresh_copy();
    expect_all_done(in_roster(kSharing.ranges, [&](int64_t rank, std::unique_ptr<Mesh>& mesh) { fill(rank, *mesh); }));
    for (int64_t rank = 0; rank < kSharing.ranges; ++rank) {
        Engine& engine = engine_of(rank);
        expect_same_weights(engine, whole.engine);
        EXPECT_EQ(engine.weights_hash(), engine_of(0).weights_hash());
        const ParameterList& list = engine.model->parameters();
        int64_t shared = 0;
        for (int64_t index = 0; index < list.count(); ++index) {
            const bool is_shared = engine.master_of(index).data == nullptr;
            EXPECT_EQ(is_shared, list[index].only_products) << list[index].name;
            shared += is_shared ? 1 : 0;
        }
        EXPECT_GT(shared, 0);
        EXPECT_LT(shared, list.count());
        EXPECT_TRUE(engine.shares_master());
    }
    EXPECT_FALSE(whole.engine.shares_master());
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
    const ParameterList list = model()->parameters();
    const auto all = static_cast<double>(list.flat_elements);
    const auto read = static_cast<double>(places_beside_copy(list).elements);
    const double largest_places = 2 * (all / 8 + 2.0 * kRangeBlock);  // ranges end with blocks
    const double beside = held({}) - 14 * all;                        // tables
    EXPECT_LE(held({.ranges = 8, .copies = 2}) - beside, 4 * read + 2 * all + 12 * largest_places);
    EXPECT_LT(held({.ranges = 8, .copies = 2}), 0.6 * held({}));
}

// Workers that come and go as dice say, with real updates between.
class History {
public:
    explicit History(uint64_t seed) : dice_(mix(seed, 0x68697374)) {
        sharing_ = {.ranges = 2 + roll(4), .copies = 1};
        sharing_.copies += sharing_.ranges > 2 ? roll(2) : 0;
        const std::vector<float> weights = fresh_weights();
        whole_.engine.put_weights()(0, weights);
        whole_.engine.refresh_copy();
    }

    void go_on() {
        lose(4);
        for (int64_t more = roll(3); more > 0 || members_.empty(); --more) {
            members_.push_back(std::make_unique<Member>(desk_, answers_, sharing_, cat("worker ", ++names_)));
        }
        meet();
        expect_all_to_have_all();
        update();
        if (roll(2) == 0) {
            lose(3);  // before anybody has gathered
        } else {
            in_all([](Member& member, int64_t /*rank*/, Mesh& mesh) { member.shared.gather_weights(mesh); });
            expect_all_to_have_all();
        }
    }
    [[nodiscard]] int64_t lost() const { return lost_; }
    [[nodiscard]] int64_t found() const { return found_; }

private:
    [[nodiscard]] int64_t roll(int64_t sides) {
        return static_cast<int64_t>((dice_ = mix(dice_)) % static_cast<uint64_t>(sides));
    }
    // Each with this chance.
    void lose(int64_t one_of) {
        std::erase_if(members_, [&](const std::unique_ptr<Member>&) { return roll(one_of) == 0; });
    }
    template <class Work>
    std::vector<Outcome> outcomes_of_all(const Work& work) {
        return in_roster(std::ssize(members_), [&](int64_t rank, std::unique_ptr<Mesh>& mesh) {
            Member& member = *members_[static_cast<size_t>(rank)];
            member.enter(rank, *mesh);
            work(member, rank, *mesh);
        });
    }
    template <class Work>
    void in_all(const Work& work) {
        expect_all_done(outcomes_of_all(work));
    }
    // Of those who are left, with the state.
    [[nodiscard]] std::set<int64_t> ranges_left() const {
        std::set<int64_t> left;
        for (const auto& member : members_) {
            for (const int64_t range : member->place.engine.optimizer->kept().by_place()) {
                if (member->has_state && range != KeptMoments::kNone) {
                    left.insert(range);
                }
            }
        }
        return left;
    }

    void meet() {
        const bool has_any = std::ranges::any_of(members_, [](const auto& member) { return member->has_state; });
        const bool has_all = std::ssize(ranges_left()) == sharing_.ranges;
        const auto outcomes = outcomes_of_all([](Member& member, int64_t rank, Mesh& mesh) {
            (void)member.shared.level_out(
                mesh, rank, {.has_state = member.has_state, .apply = [] { throw Error("nobody has voted here"); }});
        });
        for (const Outcome& outcome : outcomes) {
            EXPECT_EQ(outcome, has_any && !has_all ? Outcome::As::roster_changed : Outcome::As::done);
        }
        if (!has_any || !has_all) {
            lost_ += has_any ? 1 : 0;
            fill();
        } else {
            ++found_;
        }
        for (const auto& member : members_) {  // what another one tells in a run
            member->place.engine.state.step = whole_.engine.state.step;
            member->place.engine.optimizer->restore(whole_.engine.optimizer->counters());
            member->has_state = true;
        }
    }
    // From a checkpoint.
    void fill() {
        while (std::ssize(members_) < sharing_.least_members()) {
            members_.push_back(std::make_unique<Member>(desk_, answers_, sharing_, cat("worker ", ++names_)));
        }
        const std::vector<float> weights = downloaded(*whole_.kernels, View<const float>(whole_.engine.weights.master));
        std::vector<std::vector<std::byte>> moments;
        for (const StoredMoment& moment : whole_.engine.optimizer->moments()) {
            for (const StoredMoment::Part& part : moment.parts) {
                moments.push_back(bytes_at(whole_.engine, part.device_bytes));
            }
        }
        in_all([&](Member& member, int64_t rank, Mesh& mesh) {
            member.fill(rank, std::ssize(members_), weights, mesh);
            for (size_t part = 0; part < moments.size(); ++part) {
                member.shared.write(moments[part], static_cast<int64_t>(part) + 1, 0);
            }
        });
    }

    static void update(Engine& engine, int64_t step) {
        engine.sum.open(1, Units::first(std::vector<float>(engine.sum.tensors().size(), 1.0F)));
        const GradientSink::Grain grain{.number = 0, .counted_tokens = 3};
        engine.sum.begin(std::span(&grain, 1));
        engine.sum.end();
        std::vector<int64_t> sums;
        for (int64_t element = 0; element < engine.sum.elements(); ++element) {
            sums.push_back(static_cast<int64_t>(mix(static_cast<uint64_t>(element), static_cast<uint64_t>(step))) >>
                           24);
        }
        engine.sum.write_integers(0, sums);
        engine.optimizer->update(engine.sum.mean(), {.rate = 0.01, .beta2 = 0.95}, engine.weights);
        engine.state.step = step;
    }
    void update() {
        const int64_t step = whole_.engine.state.step + 1;
        update(whole_.engine, step);
        for (const auto& member : members_) {
            member->shared.begin_update();
            update(member->place.engine, step);
        }
    }
    void expect_all_to_have_all() {
        for (const auto& member : members_) {
            expect_same_weights(member->place.engine, whole_.engine);
            EXPECT_EQ(member->place.engine.weights_hash(), members_.front()->place.engine.weights_hash());
        }
    }

    uint64_t dice_;
    StateSharing sharing_;
    CoordinatorDesk desk_{{.least_workers = 1}};
    NoAnswers answers_;
    Place whole_{StateSharing{}};
    std::vector<std::unique_ptr<Member>> members_;
    int64_t names_ = 0;
    int64_t lost_ = 0;
    int64_t found_ = 0;
};

TEST(KeptWeightsHistoryTest, WhoeverComesAndGoesReadsTheWeightsOfOneProcess) {
    int64_t lost = 0;
    int64_t found = 0;
    for (uint64_t seed = 0; seed < 12; ++seed) {
        History history(seed);
        for (int round = 0; round < 8 && !::testing::Test::HasFailure(); ++round) {
            history.go_on();
        }
        ASSERT_FALSE(::testing::Test::HasFailure()) << "history " << seed;
        lost += history.lost();
        found += history.found();
    }
    EXPECT_GT(lost, 5);
    EXPECT_GT(found, 20);
}

}  // namespace
}  // namespace accrue::testing
