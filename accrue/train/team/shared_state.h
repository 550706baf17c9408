#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "accrue/dist/linked_workers.h"
#include "accrue/train/engine.h"
#include "accrue/train/team/packet.h"

namespace accrue {

// The part of a run's state that this worker keeps, where workers share it: the moments of some ranges and, in bf16 and fp16, the
// fp32 of their matrices that only products read. What forward reads is everywhere, and so are sums. A range stands at a window,
// like all that this worker has: at the engine's step.
//
// Rules:
// - Update n of a range comes only onto n - 1, from sums that all its keepers hold and whose checks add up.
// - Whoever has voted keeps what an update needs until it knows that all have made it: if any member stands at n, then n counts,
//   and whoever voted on the same exchange makes the update too, when they meet again.
// - Nobody begins a window before its weights are whole, and nothing counts before all have said the same hash of them: of what
//   forward reads. The keepers of a range have also said the same hash of its fp32.
// - The copy in bf16 of what is kept elsewhere comes from its owner and never from fp32 that lies here: that may be of no window.
// - What is kept moves only when a roster is formed; a range without a keeper means that everybody's state is lost, and that
//   a checkpoint is read. A member that comes in another state than the newest keeps nothing.
class SharedState {
public:
    // All must outlive it.
    SharedState(Engine& engine, LinkedWorkers& linked, const StateSharing& sharing)
        : engine_(engine), linked_(linked), sharing_(sharing) {}

    [[nodiscard]] const StateSharing& sharing() const { return sharing_; }

    // A roster is formed: all tell what they have, make the update that some have missed, and hand on ranges and weights to those
    // who lack them. What is left to take from the member that it names is its standing. Nothing: nobody has any state. Throws
    // RosterChanged where a range is lost: all have no state then, and meet again.
    struct Update {
        bool& has_state;
        std::function<void()> apply;  // of the window whose sums linked.take_voted() has taken
    };
    [[nodiscard]] std::optional<int64_t> level_out(Mesh& mesh, int64_t rank, const Update& update);

    // After an update: everybody's new weights. Nobody has the hash of all before.
    void begin_update() { is_whole_ = false; }
    void gather_weights(Mesh& mesh);

    // A run begins, and its state comes: who keeps what of it, with zeros for moments. False if members are too few.
    [[nodiscard]] bool begin(int64_t rank, int64_t members);
    // Everything of it has been written: all members call it.
    void complete(Mesh& mesh);

    // What whoever leads the run writes into the state, of which each member takes what it keeps.
    void write(std::span<const std::byte> bytes, int64_t part, int64_t offset);
    // What it reads, of parts that nobody has all of: all members call it, and rank 0 gets it.
    [[nodiscard]] bool is_shared_part(int64_t part) const;
    [[nodiscard]] std::string read(Mesh& mesh, int64_t part, int64_t offset, int64_t bytes);

private:
    [[nodiscard]] std::string status(bool has_state) const;
    void keep(RangeKeepers keepers, int64_t rank);
    void hold_all_kept();
    void hand_on_ranges(Mesh& mesh, const std::vector<std::vector<int64_t>>& held);
    // Of what this worker has computed itself, everybody's must be the same.
    void hand_on_weights(Mesh& mesh, const std::set<int64_t>& computed);
    void hand_on_frozen(Mesh& mesh, int64_t from_rank);
    [[nodiscard]] int64_t owner_of(int64_t range) const { return keepers_[static_cast<size_t>(range)].front(); }
    void compare_kept_weights(Mesh& mesh);
    [[nodiscard]] Error other_weights(int64_t range) const;

    Engine& engine_;
    LinkedWorkers& linked_;
    StateSharing sharing_;
    RangeKeepers keepers_;
    std::set<int64_t> held_;  // ranges whose state stands at the engine's step
    bool is_whole_ = false;   // all weights do
};

}  // namespace accrue
