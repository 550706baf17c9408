#include "accrue/train/run_plan.h"

#include <algorithm>
#include <utility>

#include <malloc.h>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"

namespace accrue {
namespace {

// What a process takes after it was measured and outside of the arena: pages of the program that were not needed yet,
// the heap of the thread that loads ahead, buffers of files. Measured with bench/memory_promise.
constexpr int64_t kLaterBytes = int64_t{6} << 20;
// And each thread of the pool: pages of its stack and of a heap of its own, which it had not needed yet. Measured with 1
// to 256 threads: about 24 KiB.
constexpr int64_t kLaterBytesOfAThread = int64_t{32} << 10;
constexpr int64_t kHugePage = int64_t{2} << 20;

// First fit places a window of shorter samples a little differently than the plan's longest ones; the address space for
// that costs nothing, and the arena holds no more memory for it.
constexpr double kSpareAddresses = 1.25;

// All tasks of the machine or group stand still for so much of their time: memory is short, whatever its figures say.
constexpr double kPressure = 0.2;
// A larger plan must fit so well, so many windows in a row, before a run goes back to it.
constexpr double kRoomToGrow = 0.95;
constexpr int64_t kCalmWindows = 3;

// A number format that would make a run smaller. It changes the result, so it is only proposed.
struct Proposal {
    const char* text;
    void (*apply)(Settings&);
};
constexpr Proposal kProposals[] = {
    {"optimizer.moments = \"8bit\"", [](Settings& s) { s.optimizer.moments = MomentFormat::eight_bits; }},
    {"compute.sums = \"bf16-stochastic\"", [](Settings& s) { s.compute.sums = SumKind::bf16_stochastic; }},
    {"both",
     [](Settings& s) { s.optimizer.moments = MomentFormat::eight_bits, s.compute.sums = SumKind::bf16_stochastic; }},
};

int64_t smallest_process(const Planner& like, const Settings& settings, const ProcessBase& base) {
    Planner planner(settings, like.model(), like.longest_sample(), like.threads());
    return process_bytes(base, planner, planner.frontier(Rates::typical(settings, like.threads())).back());
}

}  // namespace

MemoryBound memory_of_machine() {
    return memory_bound(read_memory_facts());
}

MemoryBound budget_of(const Settings& settings, const MemoryBound& machine) {
    MemoryBound budget = machine;
    const std::optional<ByteSize>& given = settings.compute.memory;
    if (given && given->bytes < machine.bytes) {
        budget.bytes = given->bytes;
        budget.reason = cat("compute.memory is ", format_bytes(given->bytes));
    }
    return budget;
}

ProcessBase ProcessBase::measure() {
    malloc_trim(0);
    const ProcessMemory memory = process_memory();
    return {.held_bytes = memory.resident_bytes, .peak_bytes = memory.peak_resident_bytes};
}

int64_t process_bytes(const ProcessBase& base, const Planner& planner, const Plan& plan) {
    const int64_t arena = (plan.arena_bytes + kHugePage - 1) / kHugePage * kHugePage;
    const int64_t later = kLaterBytes + planner.threads() * kLaterBytesOfAThread;
    return base.held_bytes + later + planner.host_bytes(plan.micro_batch_grains) + arena;
}

std::string text_of(const Plan& plan) {
    const int64_t block = plan.blocks_with(Recompute::block);
    const int64_t cheap = plan.blocks_with(Recompute::cheap);
    const size_t layers = plan.choices.blocks.size();
    std::string text;
    const auto add = [&text](const auto&... words) { text += cat(text.empty() ? "" : ", ", words...); };
    if (block > 0) {
        add(block, " of ", layers, " blocks recomputed");
    }
    if (cheap > 0) {
        add(cheap, " of ", layers, block > 0 ? " cheaply" : " blocks recomputed cheaply");
    }
    if (text.empty()) {
        add("nothing recomputed");
    }
    if (plan.choices.loss_rows != Choices::kLossRows) {
        add("the loss ", plan.choices.loss_rows, " rows at a time");
    }
    if (plan.choices.weight_copy == Choices::WeightCopy::converted_per_tile) {
        add("weights converted per tile");
    }
    return text;
}

std::string refusal_text(const MemoryBound& budget, const ProcessBase& base, const Planner& planner,
                         const Plan& smallest) {
    const Settings& settings = planner.settings();
    const ArenaParts& parts = smallest.parts;
    const int64_t needed = process_bytes(base, planner, smallest);
    std::string text = cat(budget.reason, ", but the smallest plan needs ", format_bytes(needed), " (weights ",
                           format_bytes(parts.weights + parts.copy), ", sums ", format_bytes(parts.sums), ", moments ",
                           format_bytes(parts.moments), ", one micro-batch ",
                           format_bytes(smallest.arena_bytes - smallest.resident_bytes), ", this process itself ",
                           format_bytes(needed - smallest.arena_bytes), "; ", text_of(smallest), ", ",
                           smallest.micro_batch_grains, " grain(s) a micro-batch). ");
    if (planner.record_bytes() > needed / 2) {
        return cat(text, "Most of it, ", format_bytes(planner.record_bytes()), ", are records of the window's ",
                   static_cast<int64_t>(planner.window_grains()),
                   " grains: set window.samples (or window.tokens) lower, or window.grain_samples higher.");
    }
    text += "Give it that much, or take a smaller model or a shorter data.sequence_length";
    text += settings.window.micro_batch_grains > 1 ? ", or leave window.micro_batch_grains at 0" : "";
    text += settings.compute.recompute ? ", or leave compute.recompute at \"auto\"" : "";
    text += ".";
    for (const Proposal& proposal : kProposals) {
        Settings changed = settings;
        proposal.apply(changed);
        const int64_t bytes = smallest_process(planner, changed, base);
        if (bytes < needed) {
            text +=
                cat(" With ", proposal.text, ", which changes the result, it would need ", format_bytes(bytes), ".");
        }
    }
    return text;
}

void check_peak(const MemoryBound& budget, const ProcessBase& base) {
    if (base.peak_bytes > budget.bytes) {
        throw Error(cat(budget.reason, ", but reading the settings and the data has already taken ",
                        format_bytes(base.peak_bytes),
                        ". Tokenizing is done once: start again, or give compute.memory at least that."));
    }
}

RunPlan::RunPlan(const Settings& settings, const ModelConfig& model, int64_t longest_sample, int threads,
                 MemorySource source)
    : settings_(settings),
      source_(std::move(source)),
      planner_(settings, model, longest_sample, threads),
      base_(ProcessBase::measure()),
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
    check_peak(budget, base_);
    reserve_addresses(budget.address_bytes);
}

void RunPlan::reserve_addresses(int64_t available) {
    const auto wanted = static_cast<int64_t>(static_cast<double>(unlimited_.arena_bytes) * kSpareAddresses);
    address_bytes_ = std::max(plan_.arena_bytes, std::min(wanted, available - kHugePage));
}

int64_t RunPlan::peak_bytes() const {
    return std::max(base_.peak_bytes, bytes_of(plan_));
}

const std::vector<Plan>& RunPlan::plans() {
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

const Plan* RunPlan::fastest_within(int64_t bytes) {
    const auto found = std::find_if(plans().begin(), plans().end(), [&](const Plan& plan) {
        return bytes_of(plan) <= bytes && (address_bytes_ == 0 || plan.arena_bytes <= address_bytes_);
    });
    return found == plans().end() ? nullptr : &*found;
}

std::optional<RunPlan::Change> RunPlan::change_to(const Plan& plan, const std::string& why) {
    plan_ = plan;
    calm_windows_ = 0;
    return Change{cat(why, ": from here on ", format_bytes(peak_bytes()), " (", text_of(plan_), ", ",
                      plan_.micro_batch_grains, " grain(s) a micro-batch); the result stays the same")};
}

std::optional<RunPlan::Change> RunPlan::reconsider() {
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
