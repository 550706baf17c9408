#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "accrue/base/memory.h"
#include "accrue/train/planner.h"

namespace accrue {

// Says what this process may hold now. Asked before a run and between its windows.
using MemorySource = std::function<MemoryBound()>;
// Asks the machine.
[[nodiscard]] MemoryBound memory_of_machine();
// What this process may hold of a device's memory: of a GPU's what it holds and what is free now.
[[nodiscard]] MemoryBound memory_of_device(const DeviceName& device);

// What a process takes of a GPU's memory before its arena and beside it. Measured where that GPU is here.
[[nodiscard]] int64_t gpu_bytes_beside_an_arena(const DeviceName& device);

// What a run may hold: compute.memory, or less where the machine has less.
[[nodiscard]] MemoryBound budget_of(const Settings& settings, const MemoryBound& machine);

// What the system gives at once.
inline constexpr int64_t kHugePage = int64_t{2} << 20;

// What a process holds besides the arena of a plan, in the memory that the arena lies in: the machine's, or a GPU's.
struct ProcessBase {
    int64_t held_bytes = 0;  // now: program, data, pool; of a GPU what CUDA keeps
    int64_t peak_bytes = 0;  // the most so far

    // Measured now, after freed memory was given back.
    [[nodiscard]] static ProcessBase measure();
    [[nodiscard]] static ProcessBase measure(const DeviceName& device);
};

// Bytes of addresses beside those of a plan, in which a window of shorter samples, whose blocks first fit places a little
// differently, has room. On a GPU they are memory, which a plan counts.
[[nodiscard]] int64_t spare_bytes(const Planner& planner, const Plan& plan);

// The most that a process holds when it runs by a plan: what it holds already, what it will take outside of the arena,
// and the arena in whole huge pages.
[[nodiscard]] int64_t process_bytes(const ProcessBase& base, const Planner& planner, const Plan& plan);

// The most that this process holds of the machine's memory when a GPU computes by a plan that keeps state there. `base`: of the
// machine's memory too.
[[nodiscard]] int64_t host_process_bytes(const ProcessBase& base, const Planner& planner, const Plan& plan);
// Why the machine has no room for the state that a plan keeps in its memory, and what would help; "" = it has, or there is none.
[[nodiscard]] std::string host_refusal_text(const MemoryBound& machine, const ProcessBase& base, const Planner& planner,
                                            const Plan& plan);

// What lies in a plan's arena between steps, part by part; what lies on the host instead is left out.
[[nodiscard]] std::string resident_parts_text(const ArenaParts& parts, HostState on_host);

// Why no plan fits: the smallest of them (by `base`), what it needs and what would help.
[[nodiscard]] std::string refusal_text(const MemoryBound& budget, const ProcessBase& base, const Planner& planner,
                                       const Plan& smallest);

// An error if this process has held more than the budget before anything was computed.
void check_peak(const MemoryBound& budget, const ProcessBase& base);

// What this process can still take; nothing where the system does not say.
[[nodiscard]] std::optional<int64_t> available_memory();

// A plan that does not fit is refused before anything is computed: the message says what it needs and what there is.
void check_memory(const ArenaPlan& plan, int64_t available_bytes);

}  // namespace accrue
