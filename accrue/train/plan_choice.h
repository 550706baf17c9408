#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accrue/train/memory_budget.h"

namespace accrue {

// The plan that a run follows: the fastest that fits, chosen before anything is computed, and another one when the
// machine's memory shrinks or recovers.
class PlanChoice {
public:
    // An error if no plan fits: it names the smallest and what would help. Without a source the device's memory is asked for.
    // `sharing`: of the moments, where workers share them out. `machine`: the memory in which state lies that a GPU has no room for.
    PlanChoice(const Settings& settings, const std::shared_ptr<const ModelSpec>& model, int64_t longest_sample,
               int threads, MemorySource source = {}, const MemorySource& machine = memory_of_machine,
               const StateSharing& sharing = {});

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
    [[nodiscard]] MemoryBound budget() const {
        return budget_of(settings_, source_ ? source_() : memory_of_device(planner_.device()));
    }
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
