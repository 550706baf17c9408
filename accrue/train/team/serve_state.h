#pragma once

#include "accrue/dist/link.h"
#include "accrue/train/engine.h"
#include "accrue/train/team/packet.h"
#include "accrue/train/team/shared_state.h"

namespace accrue {

// A worker's side of a StateDesk: reads and writes its state as it is told, until it is told to end. Filled: it was given all
// that a run's state is.
enum class Served { read, filled };
[[nodiscard]] Served serve_state(Link& link, Engine& engine);
// One command of a leader, and what there is to answer.
[[nodiscard]] Packet obey_leader(Engine& engine, const Packet& command);
// The same where workers share the state: all members call it, and rank 0 talks with the leader. Where something is written,
// nobody has a state any more until all of it is there.
[[nodiscard]] Served serve_shared_state(Link& link, Mesh& mesh, int64_t rank, Engine& engine, SharedState& shared,
                                        bool& has_state);
// What a worker says of a task for which it would need the state that nobody has.
inline constexpr const char* kNoState = "no state";
// And of a step that ended before its window was complete.
inline constexpr const char* kLeftOpen = "left open";

// What an engine stands for beside weights, moments and sums, with the record of an open window, for others that are to stand
// there too; and taking it over with empty sums.
[[nodiscard]] std::string standing_of(const Engine& engine);
void stand_there_too(Engine& engine, const std::string& standing);

}  // namespace accrue
