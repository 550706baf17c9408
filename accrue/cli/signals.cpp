#include "accrue/cli/signals.h"

#include <csignal>

namespace accrue {
namespace {

// A signal handler can reach nothing but a global.
StopFlag g_stop{false};
static_assert(StopFlag::is_always_lock_free);

void request_stop(int signal) {
    g_stop = true;
    std::signal(signal, SIG_DFL);
}

}  // namespace

const StopFlag& stop_on_signals() {
    std::signal(SIGINT, request_stop);
    std::signal(SIGTERM, request_stop);
    return g_stop;
}

}  // namespace accrue
