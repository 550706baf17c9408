#include "accrue/dist/members_testing.h"

#include <algorithm>
#include <ostream>
#include <thread>

#include <gtest/gtest.h>

#include "accrue/base/random.h"

namespace accrue::testing {

void MemoryStore::set(const std::string& key, const std::string& value) {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
}

std::string MemoryStore::get(const std::string& key, std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    const bool came = changed_.wait_for(lock, limit, [&] { return has_ended_ || values_.contains(key); });
    if (has_ended_ || !came) {
        throw RosterChanged(cat(key, " did not come: ", has_ended_ ? "the roster has ended" : "nobody set it"));
    }
    return values_[key];
}

void MemoryStore::end() {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
}

void PrintTo(const Outcome& outcome, std::ostream* out) {
    constexpr const char* kNames[] = {"done", "roster changed: ", "error: "};
    *out << kNames[static_cast<int>(outcome.as)] << outcome.message;
}

std::vector<Outcome> each_in_a_thread(int64_t size, const std::function<void(int64_t rank)>& work) {
    std::vector<Outcome> outcomes(static_cast<size_t>(size));
    std::vector<std::jthread> threads;
    for (int64_t rank = 0; rank < size; ++rank) {
        threads.emplace_back([&outcome = outcomes[static_cast<size_t>(rank)], &work, rank] {
            try {
                work(rank);
            } catch (const RosterChanged& changed) {
                outcome = {.as = Outcome::As::roster_changed, .message = changed.what()};
            } catch (const std::exception& error) {
                outcome = {.as = Outcome::As::error, .message = error.what()};
            }
        });
    }
    threads.clear();
    return outcomes;
}

std::vector<Outcome> in_roster(int64_t size, const MemberWork& work, const MeshOptions& options) {
    MemoryStore store;
    return each_in_a_thread(size, [&](int64_t rank) {
        const MeshDevice device;
        MeshOptions mine = options;
        mine.rank = rank;
        mine.size = size;
        std::unique_ptr<Mesh> mesh = connect_mesh(device, store, mine);
        work(rank, mesh);
    });
}

IntegerSums sums_in(std::vector<int64_t>& values) {
    return {.elements = std::ssize(values),
            .read =
                [&values](int64_t first, std::span<int64_t> into) {
                    std::ranges::copy(std::span(values).subspan(static_cast<size_t>(first)).first(into.size()),
                                      into.begin());
                },
            .write =
                [&values](int64_t first, std::span<const int64_t> from) {
                    std::ranges::copy(from,
                                      std::span(values).subspan(static_cast<size_t>(first)).first(from.size()).begin());
                }};
}

std::vector<int64_t> contribution(int64_t rank, int64_t elements, int64_t window) {
    std::vector<int64_t> values;
    values.reserve(static_cast<size_t>(elements));
    const uint64_t key = mix(static_cast<uint64_t>(rank), static_cast<uint64_t>(window));
    for (int64_t i = 0; i < elements; ++i) {
        values.push_back(static_cast<int64_t>(mix(key + static_cast<uint64_t>(i))));
    }
    return values;
}

std::vector<int64_t> sum_of_contributions(int64_t size, int64_t elements, int64_t window) {
    std::vector<uint64_t> sums(static_cast<size_t>(elements));
    for (int64_t rank = 0; rank < size; ++rank) {
        const std::vector<int64_t> mine = contribution(rank, elements, window);
        for (size_t i = 0; i < sums.size(); ++i) {
            sums[i] += static_cast<uint64_t>(mine[i]);
        }
    }
    return {sums.begin(), sums.end()};
}

std::function<void(const Arrival&)> once(const Disturbance& disturbance, int64_t rank, bool& is_done) {
    is_done = rank != disturbance.to_rank;
    return [&](const Arrival& arrival) {
        if (!is_done && arrival.of == disturbance.of && arrival.from_rank == disturbance.from_rank) {
            is_done = true;
            disturbance.change(arrival, {reinterpret_cast<int64_t*>(arrival.bytes.data()), arrival.bytes.size() / 8});
        }
    };
}

WrongRanges wrong_in(const std::vector<ExchangeChecks>& of_members) {
    WrongRanges wrong;
    for (size_t owner = 0; owner < of_members.size(); ++owner) {
        uint64_t given = 0;
        for (const ExchangeChecks& each : of_members) {
            given += each.given[owner];
        }
        for (size_t member = 0; member < of_members.size(); ++member) {
            if (of_members[member].total[owner] != given) {
                wrong.emplace(member, owner);
            }
        }
    }
    return wrong;
}

std::vector<NamedChange> changes_on_the_way(int64_t elements) {
    return {
        {"nothing", [](const Arrival&, std::span<int64_t>) {}},
        {"a flipped bit", [](const Arrival& arrival, std::span<int64_t>) { arrival.bytes.back() ^= std::byte{0x80}; }},
        {"lost", [](const Arrival&, std::span<int64_t> values) { std::ranges::fill(values, 0); }},
        {"twice",
         [](const Arrival&, std::span<int64_t> values) {
             std::ranges::for_each(
                 values, [](int64_t& value) { value = static_cast<int64_t>(static_cast<uint64_t>(value) * 2); });
         }},
        {"of the window before",
         [elements](const Arrival& arrival, std::span<int64_t> values) {
             const auto stale = contribution(arrival.from_rank, elements, 0);
             std::copy_n(stale.begin() + arrival.first, values.size(), values.begin());
         }},
    };
}

void expect_all_done(const std::vector<Outcome>& outcomes) {
    for (const Outcome& outcome : outcomes) {
        EXPECT_EQ(outcome, Outcome::As::done);
    }
}

}  // namespace accrue::testing
