#include "accrue/assess/lab_memory.h"

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/kernels/device.h"
#include "accrue/model/parameters.h"
#include "accrue/train/engine.h"
#include "accrue/train/planner.h"

namespace accrue {
namespace {

// More threads than these need not be tried: who computes what is then different for every piece of work.
constexpr int kMostThreads = 3;
// Of what the machine could give, where more only makes micro-batches larger: other programs want some too.
constexpr double kShareOfMemory = 0.8;
// First fit places things a little differently from case to case; untouched addresses cost nothing.
constexpr double kSpareLabAddresses = 1.25;
// What is known of each grain is kept of so many computations at a time, of samples as grains too.
constexpr int64_t kLedgers = 5;

// One grain at a time is the least; the planner is then free in everything else that the job leaves open.
Settings one_grain_at_a_time(Settings settings) {
    settings.window.micro_batch_grains = 1;
    return settings;
}

}  // namespace

LabMemory::LabMemory(const RunInputs& inputs, const Window& window, int threads, const MemoryBound& machine)
    : inputs_(inputs),
      window_(window),
      threads_(std::max(threads, kMostThreads)),
      planner_(one_grain_at_a_time(inputs.settings), inputs.model, inputs.longest_sample(), threads_),
      base_(ProcessBase::measure(planner_.device())),
      second_sum_bytes_(inputs.model->parameters().flat_elements * bytes_of(SumKind::exact)),
      state_bytes_(planner_.unlimited().host_bytes),
      choices_(choices_of(inputs.settings, inputs.model->blocks())) {
    choices_.waiting_grains = most_waiting();
    const MemoryBound budget = budget_of(inputs.settings, machine);
    const auto most = static_cast<int64_t>(kShareOfMemory * static_cast<double>(machine.bytes - base_.held_bytes));
    const int64_t enough = std::min(budget.bytes, base_.held_bytes + most);
    most_at_once_ = window_.grains();
    engine_bytes_ = engine_bytes(most_at_once_, choices_);
    while (most_at_once_ > 1 && process_bytes_with(engine_bytes_, most_at_once_) > enough) {
        most_at_once_ = (most_at_once_ + 1) / 2;
        engine_bytes_ = engine_bytes(most_at_once_, choices_);
    }
    if (process_bytes_with(engine_bytes_, most_at_once_) > budget.bytes) {
        choose_smaller_plan(budget);
    }
    check_host();
    check_peak(budget, base_);
    if (planner_.device().kind == DeviceKind::cuda) {  // whose addresses are memory
        Plan plan;
        plan.arena_bytes = arena_bytes();
        address_bytes_ = arena_bytes() + spare_bytes(planner_, plan);
        return;
    }
    const auto addresses = static_cast<int64_t>(static_cast<double>(arena_bytes()) * kSpareLabAddresses);
    address_bytes_ = std::max(arena_bytes(), std::min(addresses, budget.address_bytes - kHugePage));
}

// The second sum lies beside the first.
void LabMemory::check_host() {
    if (state_bytes_ == 0) {
        return;
    }
    Plan plan = planner_.unlimited();
    plan.host_bytes = host_bytes();
    const std::string refusal = host_refusal_text(memory_of_machine(), ProcessBase::measure(), planner_, plan);
    if (!refusal.empty()) {
        throw Error(refusal);
    }
}

// As a run with enough memory has it.
int64_t LabMemory::most_waiting() const {
    const int64_t most = make_workspace(device_of(inputs_.settings.compute), threads_)->traits().most_waiting_grains;
    const int64_t waiting = inputs_.settings.compute.sums == SumKind::exact ? std::min(most, window_.grains()) : 0;
    return waiting > 1 ? waiting : 0;
}

int64_t LabMemory::engine_bytes(int64_t grain_samples, int64_t at_once, const Choices& choices) const {
    Settings settings = inputs_.settings;
    settings.window.grain_samples = grain_samples;
    settings.window.micro_batch_grains = at_once;
    return plan_arena(settings, inputs_.model, inputs_.longest_sample(), threads_, choices).peak_bytes;
}

int64_t LabMemory::engine_bytes(int64_t at_once, const Choices& choices) const {
    return std::max(engine_bytes(window_.grain_samples, at_once, choices),
                    engine_bytes(1, samples_at_once(at_once), choices));
}

int64_t LabMemory::process_bytes_with(int64_t engine_bytes, int64_t at_once) const {
    Plan plan;
    plan.micro_batch_grains = at_once;
    plan.arena_bytes = engine_bytes + (has_sums_on_host() ? 0 : second_sum_bytes_);
    const int64_t tensors = inputs_.model->parameters().count();
    const auto ledgers = kLedgers * window_.samples * tensors * static_cast<int64_t>(sizeof(GrainRecord));
    return process_bytes(base_, planner_, plan) + ledgers;
}

void LabMemory::choose_smaller_plan(const MemoryBound& budget) {
    most_at_once_ = 1;
    std::optional<Plan> smallest;
    for (Plan& plan : planner_.frontier(Rates::typical(inputs_.settings, threads_))) {
        plan.arena_bytes = engine_bytes(1, plan.choices);
        if (process_bytes_with(plan.arena_bytes, 1) <= budget.bytes) {
            choices_ = plan.choices;
            engine_bytes_ = plan.arena_bytes;
            return;
        }
        if (!smallest || plan.arena_bytes < smallest->arena_bytes) {
            smallest = std::move(plan);
        }
    }
    throw Error(refusal(budget, smallest.value()));
}

std::string LabMemory::refusal(const MemoryBound& budget, const Plan& smallest) const {
    const int64_t needed = process_bytes_with(smallest.arena_bytes, 1);
    const int64_t second_sum = has_sums_on_host() ? 0 : second_sum_bytes_;
    return cat(budget.reason, ", but the smallest plan to compute a window in several ways needs ",
               format_bytes(needed), " (", resident_parts_text(smallest.parts, inputs_.settings.compute.host_state),
               second_sum > 0 ? cat(", a second sum to compare with ", format_bytes(second_sum)) : "",
               ", one micro-batch ", format_bytes(smallest.arena_bytes - smallest.resident_bytes),
               ", this process itself ", format_bytes(needed - smallest.arena_bytes - second_sum), "; ",
               text_of(smallest),
               ", one grain at a time). Give it that much, or take a smaller model or a shorter data.sequence_length.");
}

std::optional<int64_t> LabMemory::most_at_once_with(const Choices& choices) const {
    for (int64_t at_once = most_at_once_; at_once >= 1; at_once /= 2) {
        if (engine_bytes(window_.grain_samples, at_once, choices) <= engine_bytes_) {
            return at_once;
        }
    }
    return std::nullopt;
}

}  // namespace accrue
