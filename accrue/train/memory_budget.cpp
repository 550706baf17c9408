#include "accrue/train/memory_budget.h"

#include <malloc.h>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/kernels/gpus.h"
#include "accrue/train/settings_words.h"

namespace accrue {
namespace {

// What a process takes after it was measured and outside of the arena: pages of the program that were not needed yet,
// the heap of the thread that loads ahead, buffers of files. Measured with bench/memory_promise.
constexpr int64_t kLaterBytes = int64_t{6} << 20;
// And each thread of the pool: pages of its stack and of a heap of its own, which it had not needed yet. Measured with 1
// to 256 threads: about 24 KiB.
constexpr int64_t kLaterBytesOfAThread = int64_t{32} << 10;

// What CUDA takes of a GPU's memory after it began and outside of the arena: kernels that were not needed yet, of the program
// and of its libraries, and graphs. Measured with bench/gpu_memory.
constexpr int64_t kLaterGpuBytes = int64_t{48} << 20;
// And when it begins, where no GPU is there to be asked.
constexpr int64_t kUsualGpuBytes = int64_t{520} << 20;

// A number format or a grain that would make a run smaller. It changes the result, so it is only proposed.
struct Proposal {
    const char* text;
    void (*apply)(Settings&);
};
constexpr Proposal kProposals[] = {
    {"optimizer.moments = \"8bit\"", [](Settings& s) { s.optimizer.moments = MomentFormat::eight_bits; }},
    {"compute.sums = \"bf16-stochastic\"", [](Settings& s) { s.compute.sums = SumKind::bf16_stochastic; }},
    {"both",
     [](Settings& s) { s.optimizer.moments = MomentFormat::eight_bits, s.compute.sums = SumKind::bf16_stochastic; }},
    {"window.grain_samples = 1", [](Settings& s) { s.window.grain_samples = 1; }},
};

int64_t smallest_process(const Planner& like, const Settings& settings, const ProcessBase& base) {
    Planner planner(settings, like.model(), like.longest_sample(), like.threads());
    return process_bytes(base, planner, planner.frontier(Rates::typical(settings, like.threads())).back());
}

// What could lie in the host's memory instead of the GPU's, by the smallest plan.
std::string host_state_text(const ProcessBase& base, const Planner& planner, const Plan& smallest) {
    std::string text;
    int64_t needed = process_bytes(base, planner, smallest);
    for (const HostState state : {HostState::moments, HostState::sums}) {
        Settings changed = planner.settings();
        if (planner.device().kind != DeviceKind::cuda || state <= changed.compute.host_state) {
            continue;
        }
        changed.compute.host_state = state;
        Planner other(changed, planner.model(), planner.longest_sample(), planner.threads());
        const Plan plan = other.plan_of(smallest.choices, smallest.micro_batch_grains);
        if (const int64_t bytes = process_bytes(base, other, plan); bytes < needed) {
            needed = bytes;
            text += cat(" With compute.host_state = \"", word_of(state),
                        "\", which changes no bit but takes longer, it would need ", format_bytes(bytes), ", and ",
                        format_bytes(plan.host_bytes), " of the machine's memory.");
        }
    }
    return text;
}

int64_t in_huge_pages(int64_t bytes) {
    return (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

// Of the machine's memory, beside arenas.
int64_t held_beside(const ProcessBase& base, const Planner& planner, const Plan& plan) {
    const int64_t later = kLaterBytes + planner.threads() * kLaterBytesOfAThread;
    return base.held_bytes + later + planner.host_bytes(plan.micro_batch_grains);
}

}  // namespace

MemoryBound memory_of_machine() {
    return memory_bound(read_memory_facts());
}

MemoryBound memory_of_device(const DeviceName& device) {
    if (device.kind != DeviceKind::cuda) {
        return memory_of_machine();
    }
    const GpuMemory memory = memory_of_gpu(device.gpu);
    const int64_t bytes = memory.free_bytes + memory.held_bytes;
    return {.bytes = bytes,
            .reason = cat("the GPU ", text_of(device), " has ", format_bytes(bytes), " of its ",
                          format_bytes(memory.total_bytes), " to give"),
            .address_bytes = bytes,
            .pressure = 0};
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

ProcessBase ProcessBase::measure(const DeviceName& device) {
    if (device.kind != DeviceKind::cuda) {
        return measure();
    }
    // A plan may be made for a GPU that is elsewhere.
    const bool is_here = device.gpu < std::ssize(gpus_of_machine().found);
    const int64_t held = is_here ? memory_of_gpu(device.gpu).held_bytes : kUsualGpuBytes;
    return {.held_bytes = held, .peak_bytes = held};
}

int64_t gpu_bytes_beside_an_arena(const DeviceName& device) {
    return ProcessBase::measure(device).held_bytes + kLaterGpuBytes;
}

int64_t spare_bytes(const Planner& planner, const Plan& plan) {
    // Placements of shorter samples have needed up to 2% more of what a micro-batch takes.
    constexpr int64_t kShareOfMicroBatch = 32;
    return planner.device().kind == DeviceKind::cuda ? (plan.arena_bytes - plan.resident_bytes) / kShareOfMicroBatch
                                                     : 0;
}

int64_t process_bytes(const ProcessBase& base, const Planner& planner, const Plan& plan) {
    if (planner.device().kind == DeviceKind::cuda) {
        return base.held_bytes + kLaterGpuBytes + in_huge_pages(plan.arena_bytes + spare_bytes(planner, plan));
    }
    return held_beside(base, planner, plan) + in_huge_pages(plan.arena_bytes);
}

int64_t host_process_bytes(const ProcessBase& base, const Planner& planner, const Plan& plan) {
    return held_beside(base, planner, plan) + in_huge_pages(plan.host_bytes);
}

std::string host_refusal_text(const MemoryBound& machine, const ProcessBase& base, const Planner& planner,
                              const Plan& plan) {
    const int64_t needed = host_process_bytes(base, planner, plan);
    if (plan.host_bytes == 0 || needed <= machine.bytes) {
        return "";
    }
    const Settings& settings = planner.settings();
    const bool has_sums = settings.compute.host_state == HostState::sums;
    std::string text =
        cat("compute.host_state is \"", word_of(settings.compute.host_state), "\", so ", format_bytes(plan.host_bytes),
            " lie in the machine's memory (", has_sums ? cat("sums ", format_bytes(plan.parts.sums), ", ") : "",
            "moments ", format_bytes(plan.parts.moments), "), where this process needs ", format_bytes(needed),
            " with all else; but ", machine.reason, ". Free that much, or ",
            has_sums ? "leave the sums to the GPU (compute.host_state = \"moments\"), or " : "",
            "leave compute.host_state at \"none\".");
    if (settings.optimizer.moments == MomentFormat::fp32) {
        text += " optimizer.moments = \"8bit\", which changes the result, takes a quarter of the moments' bytes.";
    }
    return text;
}

std::string resident_parts_text(const ArenaParts& parts, HostState on_host) {
    const std::pair<const char*, int64_t> named[] = {
        {"weights", parts.weights + parts.copy},
        {"sums", on_host == HostState::sums ? 0 : parts.sums},
        {"moments", on_host == HostState::none ? parts.moments : 0},
        {"gradients that wait", parts.waiting},
        {"tables", parts.tables},
        {"the device's own", parts.device},
    };
    std::string text;
    for (const auto& [name, bytes] : named) {
        if (bytes > 0) {
            text += cat(text.empty() ? "" : ", ", name, " ", format_bytes(bytes));
        }
    }
    return text;
}

std::string refusal_text(const MemoryBound& budget, const ProcessBase& base, const Planner& planner,
                         const Plan& smallest) {
    const Settings& settings = planner.settings();
    const int64_t needed = process_bytes(base, planner, smallest);
    std::string text = cat(budget.reason, ", but the smallest plan needs ", format_bytes(needed), " (",
                           resident_parts_text(smallest.parts, settings.compute.host_state), ", one micro-batch ",
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
    text += host_state_text(base, planner, smallest);
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

std::optional<int64_t> available_memory() {
    const MemoryFacts facts = read_memory_facts();
    const MemoryBound bound = memory_bound(facts);
    return bound.reason.empty() ? std::nullopt : std::optional(bound.bytes - facts.process.resident_bytes);
}

void check_memory(const ArenaPlan& plan, int64_t available_bytes) {
    if (plan.peak_bytes > available_bytes) {
        throw Error(cat("this run needs ", format_bytes(plan.peak_bytes), " (weights, sums and moments ",
                        format_bytes(plan.resident_bytes), ", one micro-batch ",
                        format_bytes(plan.peak_bytes - plan.resident_bytes), "), but the machine has only ",
                        format_bytes(available_bytes),
                        " to give. Choose a smaller model, a shorter data.sequence_length or a smaller ",
                        "window.micro_batch_grains (it does not change the result)."));
    }
}

}  // namespace accrue
