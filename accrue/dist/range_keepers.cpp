#include "accrue/dist/range_keepers.h"

#include <algorithm>
#include <functional>

namespace accrue {
namespace {

// Members, and what each has of something.
using Counts = std::vector<int64_t>;

// Gives ranges to members with room. What one of them was given here may go to another, where that makes room.
class Giving {
public:
    Giving(const StateSharing& sharing, RangeKeepers& keepers, int64_t members)
        : keepers_(keepers), room_(static_cast<size_t>(members), sharing.copies), given_(static_cast<size_t>(members)) {
        for (const auto& each : keepers) {
            for (const int64_t rank : each) {
                --room_[static_cast<size_t>(rank)];
            }
        }
    }

    // To a member that does not keep it; false where there is none.
    bool give(int64_t range) {
        tried_.assign(room_.size(), false);
        return give_to_untried(range);
    }

private:
    [[nodiscard]] bool keeps(int64_t rank, int64_t range) const {
        const auto& each = keepers_[static_cast<size_t>(range)];
        return std::ranges::find(each, rank) != each.end();
    }
    // Those with most room first.
    [[nodiscard]] std::vector<int64_t> untried_without(int64_t range) const {
        std::vector<int64_t> ranks;
        for (int64_t rank = 0; rank < std::ssize(room_); ++rank) {
            if (!tried_[static_cast<size_t>(rank)] && !keeps(rank, range)) {
                ranks.push_back(rank);
            }
        }
        std::ranges::stable_sort(ranks, std::greater<>(),
                                 [&](int64_t rank) { return room_[static_cast<size_t>(rank)]; });
        return ranks;
    }
    bool give_to_untried(int64_t range) {
        for (const int64_t rank : untried_without(range)) {
            const auto member = static_cast<size_t>(rank);
            if (tried_[member]) {
                continue;  // on the way
            }
            tried_[member] = true;
            if (room_[member] > 0 || makes_room(rank)) {
                --room_[member];
                given_[member].push_back(range);
                keepers_[static_cast<size_t>(range)].push_back(rank);
                return true;
            }
        }
        return false;
    }
    bool makes_room(int64_t rank) {
        std::vector<int64_t>& mine = given_[static_cast<size_t>(rank)];
        for (size_t number = 0; number < mine.size(); ++number) {
            const int64_t other = mine[number];
            if (give_to_untried(other)) {
                mine.erase(mine.begin() + static_cast<int64_t>(number));
                std::erase(keepers_[static_cast<size_t>(other)], rank);
                ++room_[static_cast<size_t>(rank)];
                return true;
            }
        }
        return false;
    }

    RangeKeepers& keepers_;
    std::vector<int64_t> room_;
    std::vector<std::vector<int64_t>> given_;
    std::vector<bool> tried_;
};

// A range that nobody keeps comes before a second keeper of another.
void give_out(const StateSharing& sharing, RangeKeepers& keepers, int64_t members) {
    Giving giving(sharing, keepers, members);
    for (int64_t copy = 1; copy <= std::min(sharing.copies, members); ++copy) {
        for (int64_t range = 0; range < std::ssize(keepers); ++range) {
            if (std::ssize(keepers[static_cast<size_t>(range)]) < copy) {
                (void)giving.give(range);
            }
        }
    }
}

// Whoever owns least of those that hold it: they send it to those who do not.
void choose_owners(RangeKeepers& keepers, const std::vector<int64_t>& holders, int64_t members) {
    Counts owned(static_cast<size_t>(members), 0);
    for (size_t range = 0; range < keepers.size(); ++range) {
        std::vector<int64_t>& each = keepers[range];
        const auto last = each.begin() + holders[range];
        const auto owner = std::min_element(each.begin(), last, [&](int64_t a, int64_t b) {
            return owned[static_cast<size_t>(a)] < owned[static_cast<size_t>(b)];
        });
        std::rotate(each.begin(), owner, owner + 1);
        ++owned[static_cast<size_t>(each.front())];
    }
}

}  // namespace

std::optional<RangeKeepers> keepers_after(const StateSharing& sharing, std::span<const std::vector<int64_t>> held) {
    RangeKeepers keepers(static_cast<size_t>(sharing.ranges));
    for (size_t rank = 0; rank < held.size(); ++rank) {
        for (const int64_t range : held[rank]) {
            keepers[static_cast<size_t>(range)].push_back(static_cast<int64_t>(rank));
        }
    }
    std::vector<int64_t> holders;
    for (const std::vector<int64_t>& each : keepers) {
        if (each.empty()) {
            return std::nullopt;
        }
        holders.push_back(std::ssize(each));
    }
    give_out(sharing, keepers, std::ssize(held));
    choose_owners(keepers, holders, std::ssize(held));
    return keepers;
}

std::optional<RangeKeepers> first_keepers(const StateSharing& sharing, int64_t members) {
    RangeKeepers keepers(static_cast<size_t>(sharing.ranges));
    give_out(sharing, keepers, members);
    std::vector<int64_t> holders;
    for (const std::vector<int64_t>& each : keepers) {
        if (each.empty()) {
            return std::nullopt;
        }
        holders.push_back(std::ssize(each));
    }
    choose_owners(keepers, holders, members);
    return keepers;
}

std::vector<int64_t> ranges_kept_by(const RangeKeepers& keepers, int64_t rank) {
    std::vector<int64_t> kept;
    for (size_t range = 0; range < keepers.size(); ++range) {
        if (std::ranges::find(keepers[range], rank) != keepers[range].end()) {
            kept.push_back(static_cast<int64_t>(range));
        }
    }
    return kept;
}

}  // namespace accrue
