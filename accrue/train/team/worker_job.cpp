#include "accrue/train/team/worker_job.h"

#include "accrue/base/error.h"
#include "accrue/kernels/gpus.h"
#include "accrue/model/families.h"
#include "accrue/model/parameters.h"
#include "accrue/train/engine.h"
#include "accrue/train/memory_budget.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/team/gpu_share.h"
#include "accrue/train/team/worker_share.h"

namespace accrue {
namespace {

Settings settings_of_text(const std::string& toml) {
    return settings_of_toml(toml, "the settings of the run's leader");
}

// Another device than the run's has other bits.
DeviceName device_here(const Settings& of_run, const TeamWorkerOptions& options) {
    constexpr const char* kWayOut =
        " All workers of a run compute on the same kind of device. Or set workers.mixed = true, and give up that the "
        "weights do not depend on who computed what.";
    const DeviceKind kind = device_of(of_run.compute).name.kind;
    const DeviceName wanted = options.device.value_or(DeviceName(kind));
    if (wanted.kind != kind && !of_run.workers.mixed) {
        throw Error(cat("the run computes on \"", word_of(kind), "\", but this worker was asked for \"",
                        text_of(wanted), "\".", kWayOut));
    }
    try {
        if (wanted.kind == DeviceKind::cuda) {
            require_gpu(wanted.gpu);
        }
    } catch (const Error& error) {
        if (options.device || !of_run.workers.mixed) {
            throw Error(cat("the run computes on GPUs, and here ", error.what(), kWayOut));
        }
        return DeviceKind::cpu;
    }
    return wanted;
}

}  // namespace

WorkerJob::WorkerJob(const nlohmann::ordered_json& words, const TeamWorkerOptions& options)
    : term(words.at("term")),
      settings(settings_of_text(words.at("settings"))),
      to_plan(settings_of_text(words.at("settings_to_plan"))),
      sharing({.ranges = words.at("ranges"), .copies = words.at("copies")}),
      computes_on_gpus(device_of(settings.compute).name.kind == DeviceKind::cuda),
      exchanges_on_gpu(words.at("exchanges_on_gpu")),
      longest(words.at("longest_sample")),
      model(known_families().parse(words.at("config_json").get<std::string>(), "the model of the run's leader",
                                   longest)) {
    options.note(cat("joining run ", words.at("run").get<std::string>(), ": ", name_of(settings.model), ", ",
                     model->parameters().elements(), " parameters"));
    if (words.at("plans_itself")) {
        exchanges_on_gpu = computes_on_gpus && can_exchange_on_gpus(settings, 1);
        settings = on_this_machine(settings, options);
        to_plan = on_this_machine(to_plan, options);
    }
}

// Nobody else is on it, or they have said how much each may use.
Settings WorkerJob::on_this_machine(Settings of_run, const TeamWorkerOptions& options) const {
    const DeviceName device = device_here(of_run, options);
    of_run.compute.device = device;
    of_run.compute.memory = options.memory ? options.memory : of_run.compute.memory;
    const int64_t threads = options.threads > 0 ? options.threads : of_run.compute.threads;
    const MemoryBound bound = budget_of(of_run, memory_of_device(device));
    if (device.kind == DeviceKind::cuda) {
        require_host_room(*model, 1);
    }
    return settings_within({.bytes = bound.bytes,
                            .threads = threads,
                            .sharing = sharing,
                            .reason = bound.reason,
                            .exchanges_on_gpu = exchanges_on_gpu},
                           of_run, *model);
}

}  // namespace accrue
