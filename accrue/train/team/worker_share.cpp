#include "accrue/train/team/worker_share.h"

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"

namespace accrue {
namespace {

// What a mesh keeps (gloo_mesh.h), and calls on their way.
int64_t exchange_bytes(int64_t elements) {
    return elements * static_cast<int64_t>(sizeof(int64_t)) + (int64_t{32} << 20);
}

}  // namespace

Settings settings_within(const WorkerShare& share, Settings settings, const ModelSpec& model) {
    const int64_t exchange = exchange_bytes(model.parameters().gradient_elements);
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
