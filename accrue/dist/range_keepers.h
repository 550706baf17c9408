#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace accrue {

// Who keeps each range of a run's state, by range: ranks of a roster. The first is its owner, to whom all contributions to it go;
// all of them apply every update to it. There are as many ranges as the run wants workers, however many there are. Ownership is a
// function of what members hold when their roster is formed, and stays as long as that.
using RangeKeepers = std::vector<std::vector<int64_t>>;

// How a run's state is shared out.
struct StateSharing {
    int64_t ranges = 1;
    int64_t copies = 1;  // of each range: so many keepers, and so many ranges that a member has room for

    // Everybody keeps everything.
    [[nodiscard]] bool is_everywhere() const { return ranges <= copies; }
    // With fewer there is no room for all ranges.
    [[nodiscard]] int64_t least_members() const { return (ranges + copies - 1) / copies; }
    bool operator==(const StateSharing&) const = default;
};

// Who keeps what next, where members hold these ranges, by rank, at the newest window: what is held stays where it is, and what
// has too few keepers is given to members with room, those with least first. A member that holds nothing may stay without: then it only
// computes. Nothing: some range has no keeper, and only a checkpoint has it.
[[nodiscard]] std::optional<RangeKeepers> keepers_after(const StateSharing& sharing,
                                                        std::span<const std::vector<int64_t>> held);
// The same of a run that begins, which nobody holds anything of. Nothing: members are too few.
[[nodiscard]] std::optional<RangeKeepers> first_keepers(const StateSharing& sharing, int64_t members);

// What a member keeps, ascending.
[[nodiscard]] std::vector<int64_t> ranges_kept_by(const RangeKeepers& keepers, int64_t rank);

}  // namespace accrue
