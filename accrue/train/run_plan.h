#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accrue/base/memory.h"
#include "accrue/train/planner.h"

namespace accrue {

// Says what this process may hold now. Asked before a run and between its windows.
using MemorySource = std::function<MemoryBound()>;
// Asks the machine.
[[nodiscard]] MemoryBound memory_of_machine();

// What a run may hold: compute.memory, or less where the machine has less.
[[nodiscard]] MemoryBound budget_of(const Settings& settings, const MemoryBound& machine);

// What a process holds besides the arena of a plan.
struct ProcessBase {
    int64_t held_bytes = 0;  // now: program, data, pool
    int64_t peak_bytes = 0;  // the most so far

    // Measured now, after freed memory was given back.
    [[nodiscard]] static ProcessBase measure();
};

// The most that a process holds when it runs by a plan: what it holds already, what it will take outside of the arena,
// and the arena in whole huge pages.
[[nodiscard]] int64_t process_bytes(const ProcessBase& base, const Planner& planner, const Plan& plan);

// "nothing recomputed"; "16 of 24 blocks recomputed, the loss 128 rows at a time, weights converted per tile".
[[nodiscard]] std::string text_of(const Plan& plan);

// Why no plan fits: the smallest of them (by `base`), what it needs and what would help.
[[nodiscard]] std::string refusal_text(const MemoryBound& budget, const ProcessBase& base, const Planner& planner,
                                       const Plan& smallest);

// An error if this process has held more than the budget before anything was computed.
void check_peak(const MemoryBound& budget, const ProcessBase& base);

// The plan that a run follows: the fastest that fits, chosen before anything is computed, and another one when the
// machine's memory shrinks or recovers.
class RunPlan {
public:
    // An error if no plan fits: it names the smallest and what would help.
    RunPlan(const Settings& settings, const std::shared_ptr<const ModelSpec>& model, int64_t longest_sample,
            int threads, MemorySource source);

    [[nodiscard]] const Plan& plan() const { return plan_; }
    // The most this process will hold.
    [[nodiscard]] int64_t peak_bytes() const;
    // Addresses for an arena in which every plan that may come has room.
    [[nodiscard]] int64_t address_bytes() const { return address_bytes_; }

    // Between two windows: true if there is another plan now, with a line that says why.
    struct Change {
        std::string note;
    };
    [[nodiscard]] std::optional<Change> reconsider();

private:
    [[nodiscard]] MemoryBound budget() const { return budget_of(settings_, source_()); }
    [[nodiscard]] int64_t bytes_of(const Plan& plan) const { return process_bytes(base_, planner_, plan); }
    // Every plan from the fastest to the smallest; found when first needed.
    [[nodiscard]] const std::vector<Plan>& plans();
    [[nodiscard]] const Plan* fastest_within(int64_t bytes);
    void reserve_addresses(int64_t available);
    [[nodiscard]] std::optional<Change> change_to(const Plan& plan, const std::string& why);

    Settings settings_;
    MemorySource source_;
    Planner planner_;
    ProcessBase base_;
    Plan unlimited_;
    std::vector<Plan> plans_;
    Plan plan_;
    int64_t address_bytes_ = 0;
    int64_t calm_windows_ = 0;
    bool is_over_ = false;  // the smallest plan, and still more than there is: said once
};

}  // namespace accrue
