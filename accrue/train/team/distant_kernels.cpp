#include "accrue/train/team/distant_kernels.h"

#include "accrue/base/error.h"
#include "accrue/dist/messages.h"

namespace accrue {

template <class Action>
void DistantKernels::in_session(const Action& action) {
    while (true) {
        const int64_t session = sessions_.open();
        try {
            action();
            return;
        } catch (const RosterChanged&) {
            sessions_.failed(session);
        }
    }
}

// What lies elsewhere than the state (units, tables) is of no use where nothing is computed.
void DistantKernels::compute(const Operation& operation) {
    if (const auto* upload = std::get_if<op::Upload>(&operation)) {
        if (const auto place = place_in(parts_, upload->device)) {
            in_session([&] { desk_.write(*place, upload->host); });
        }
    } else if (const auto* download = std::get_if<op::Download>(&operation)) {
        const auto place = place_in(parts_, download->device);
        if (!place) {
            throw Error(
                "what is no part of a run's state cannot be read from a worker. This is a fault of the program.");
        }
        in_session([&] { desk_.read(*place, download->host, std::ssize(parts_[static_cast<size_t>(place->part)])); });
    }
}

}  // namespace accrue
