#include "accrue/train/device_choice.h"

#include <cstdlib>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/kernels/gpus.h"
#include "accrue/train/inputs.h"
#include "accrue/train/memory_budget.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/team/gpu_share.h"

namespace accrue {
namespace {

// What keeps a job from a GPU of this machine; empty = nothing.
std::string hindrance(Settings settings, const std::shared_ptr<const ModelSpec>& model, int64_t longest_sample,
                      const Gpu& gpu, int64_t workers) {
    const DeviceName device(DeviceKind::cuda, gpu.number);
    settings.compute.device = device;
    if (settings.window.grain_samples == 0) {
        settings.window.grain_samples = default_grain_samples(settings.compute, longest_sample);
    }
    try {
        require_gpu(gpu.number);
        Planner planner(settings, model, longest_sample, 1);
        MemoryBound budget = budget_of(settings, memory_of_device(device));
        budget = workers > 1 ? share_of_gpu(device, workers, std::move(budget)) : std::move(budget);
        const ProcessBase base = ProcessBase::measure(device);
        const Plan unlimited = planner.unlimited();
        std::string of_host = unlimited.host_bytes == 0
                                  ? ""
                                  : host_refusal_text(memory_of_machine(), ProcessBase::measure(), planner, unlimited);
        if (!of_host.empty() || process_bytes(base, planner, unlimited) <= budget.bytes) {
            return of_host;
        }
        const Plan smallest = planner.frontier(Rates::typical(settings, 1)).back();
        const int64_t needed = process_bytes(base, planner, smallest);
        return needed <= budget.bytes ? "" : cat(budget.reason, ", and the smallest plan needs ", format_bytes(needed));
    } catch (const Error& error) {
        return error.what();
    }
}

DeviceName chosen_device(const Settings& settings, const std::shared_ptr<const ModelSpec>& model,
                         int64_t longest_sample, int64_t workers, std::string& note) {
    if (std::getenv(kTestDevice) != nullptr) {
        return usual_device();
    }
    const Gpus gpus = gpus_of_machine();
    if (gpus.has_old_driver) {
        note = cat("no GPU is used: ", gpus.why_none);
    }
    for (const Gpu& gpu : gpus.found) {
        const std::string why_not = hindrance(settings, model, longest_sample, gpu, workers);
        if (why_not.empty()) {
            return {DeviceKind::cuda, gpu.number};
        }
        note += cat(note.empty() ? "" : "; ", gpu.name, " is not used: ", why_not);
    }
    return {};
}

void check_dtype(const Settings::Compute& compute) {
    if (compute.dtype == DType::fp16 && compute.device->kind == DeviceKind::cpu) {
        throw Error(cat("compute.dtype is \"fp16\", which only GPUs compute (and, slowly, \"reference\"), and ",
                        "compute.device is \"", text_of(*compute.device),
                        "\". Use \"bf16\", which has the range of fp32 and takes as little."));
    }
}

void check_host_state(const Settings::Compute& compute) {
    if (compute.host_state != HostState::none && compute.device->kind != DeviceKind::cuda) {
        throw Error(cat("compute.host_state is \"", word_of(compute.host_state), "\", and compute.device is \"",
                        text_of(*compute.device),
                        "\", whose state is in the host's memory already: leave compute.host_state at \"none\"."));
    }
}

}  // namespace

std::string settle_device(Settings& settings, const std::shared_ptr<const ModelSpec>& model, int64_t longest_sample,
                          DeviceUse use, int64_t workers) {
    std::string note;
    std::optional<DeviceName>& device = settings.compute.device;
    if (!device) {
        device = chosen_device(settings, model, longest_sample, workers, note);
    }
    if (device->kind == DeviceKind::cuda && use == DeviceUse::compute) {
        require_gpu(device->gpu);
    }
    check_dtype(settings.compute);
    check_host_state(settings.compute);
    return note;
}

}  // namespace accrue
