#include "accrue/train/plan_choice.h"

#include <algorithm>
#include <utility>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"

namespace accrue {
namespace {

// First fit places a window of shorter samples a little differently than the plan's longest ones; the address space for
// that costs nothing, and the arena holds no more memory for it.
constexpr double kSpareAddresses = 1.25;

// All tasks of the machine or group stand still for so much of their time: memory is short, whatever its figures say.
constexpr double kPressure = 0.2;
// A larger plan must fit so well, so many windows in a row, before a run goes back to it.
constexpr double kRoomToGrow = 0.95;
constexpr int64_t kCalmWindows = 3;

}  // namespace

PlanChoice::PlanChoice(const Settings& settings, const std::shared_ptr<const ModelSpec>& model, int64_t longest_sample,
                       int threads, MemorySource source, const MemorySource& machine, const StateSharing& sharing)
    : settings_(settings),
      source_(std::move(source)),
      planner_(settings, model, longest_sample, threads, sharing),
      base_(ProcessBase::measure(planner_.device())),
      unlimited_(planner_.unlimited()),
      plan_(unlimited_) {
    const MemoryBound budget = this->budget();
    if (bytes_of(plan_) > budget.bytes) {
        const Plan* fitting = fastest_within(budget.bytes);
        if (fitting == nullptr) {
            throw Error(refusal_text(budget, base_, planner_, plans().back()));
        }
        plan_ = *fitting;
    }
    if (plan_.host_bytes > 0) {
        const std::string refusal = host_refusal_text(machine(), ProcessBase::measure(), planner_, plan_);
        if (!refusal.empty()) {
            throw Error(refusal);
        }
    }
    check_peak(budget, base_);
    reserve_addresses(budget.address_bytes);
}

void PlanChoice::reserve_addresses(int64_t available) {
    if (planner_.device().kind == DeviceKind::cuda) {  // whose addresses are memory
        address_bytes_ = plan_.arena_bytes + spare_bytes(planner_, plan_);
        return;
    }
    const auto wanted = static_cast<int64_t>(static_cast<double>(unlimited_.arena_bytes) * kSpareAddresses);
    address_bytes_ = std::max(plan_.arena_bytes, std::min(wanted, available - kHugePage));
}

int64_t PlanChoice::peak_bytes() const {
    return std::max(base_.peak_bytes, bytes_of(plan_));
}

const std::vector<Plan>& PlanChoice::plans() {
    if (plans_.empty()) {
        plans_.push_back(unlimited_);
        for (Plan& plan : planner_.frontier(Rates::typical(settings_, planner_.threads()))) {
            if (plan.arena_bytes < unlimited_.arena_bytes) {
                plans_.push_back(std::move(plan));
            }
        }
    }
    return plans_;
}

const Plan* PlanChoice::fastest_within(int64_t bytes) {
    const auto found = std::find_if(plans().begin(), plans().end(), [&](const Plan& plan) {
        return bytes_of(plan) <= bytes && (address_bytes_ == 0 || plan.arena_bytes <= address_bytes_);
    });
    return found == plans().end() ? nullptr : &*found;
}

std::optional<PlanChoice::Change> PlanChoice::change_to(const Plan& plan, const std::string& why) {
    plan_ = plan;
    calm_windows_ = 0;
    return Change{cat(why, ": from here on ", format_bytes(peak_bytes()), " (", text_of(plan_), ", ",
                      plan_.micro_batch_grains, " grain(s) a micro-batch); the result stays the same")};
}

std::optional<PlanChoice::Change> PlanChoice::reconsider() {
    if (planner_.device().kind == DeviceKind::cuda) {  // all of it was taken at the start
        return std::nullopt;
    }
    const MemoryBound now = budget();
    const bool is_pressed = now.pressure > kPressure;
    if (bytes_of(plan_) > now.bytes || is_pressed) {
        calm_windows_ = 0;
        // Under pressure the figures said that there is enough: any smaller plan helps, the next one first.
        const int64_t allowed = is_pressed ? std::min(now.bytes, bytes_of(plan_) - 1) : now.bytes;
        const Plan* smaller = fastest_within(allowed);
        smaller = smaller == nullptr ? &plans().back() : smaller;
        if (smaller->arena_bytes < plan_.arena_bytes) {
            return change_to(*smaller, is_pressed ? "memory is under pressure" : cat("less memory: ", now.reason));
        }
        if (!is_pressed && !std::exchange(is_over_, true)) {
            return Change{cat("less memory: ", now.reason, ", but the smallest plan is in use already")};
        }
        return std::nullopt;
    }
    is_over_ = false;
    if (plan_.arena_bytes == unlimited_.arena_bytes) {
        return std::nullopt;
    }
    const Plan* larger = fastest_within(static_cast<int64_t>(static_cast<double>(now.bytes) * kRoomToGrow));
    const bool is_calm = larger != nullptr && larger->arena_bytes > plan_.arena_bytes;
    calm_windows_ = is_calm ? calm_windows_ + 1 : 0;
    return calm_windows_ < kCalmWindows ? std::nullopt : change_to(*larger, "more memory");
}

}  // namespace accrue
