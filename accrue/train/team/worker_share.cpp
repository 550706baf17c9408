#include "accrue/train/team/worker_share.h"

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/train/engine.h"
#include "accrue/train/team/gpu_share.h"
#include "accrue/train/team/state_sharing.h"

namespace accrue {
namespace {

// Of the memory that a worker shares out.
int64_t exchange_bytes(const WorkerShare& share, const Settings& settings, const ModelSpec& model) {
    constexpr int64_t kSeveral = 2;  // where all is everywhere, as much as for any other number
    if (device_of(settings.compute).name.kind == DeviceKind::cuda) {
        return share.exchanges_on_gpu ? gpu_exchange_bytes(model) : 0;
    }
    return exchange_of(settings, model, share.sharing, kSeveral).held_bytes;
}

}  // namespace

Settings settings_within(const WorkerShare& share, Settings settings, const ModelSpec& model) {
    const int64_t exchange = exchange_bytes(share, settings, model);
    if (share.bytes <= exchange) {
        throw Error(cat(share.reason, ", but the exchange of their sums alone takes ", format_bytes(exchange),
                        " of each. Give more memory, or take fewer workers on this machine."));
    }
    const int64_t left = share.bytes - exchange;
    settings.compute.memory = ByteSize{.text = std::to_string(left), .bytes = left};
    settings.compute.threads = share.threads;
    return settings;
}

}  // namespace accrue
