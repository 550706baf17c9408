#include "accrue/cli/standby.h"

#include <random>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/cli/work_command.h"
#include "accrue/train/settings_difference.h"

namespace accrue {
namespace {}  // namespace

bool Standby::lead(const StopFlag& stop, const std::function<void(const std::string& line)>& told) {
    std::random_device random;
    const nlohmann::json mine = {{"who", cat(host_name(), ", process ", getpid())},
                                 {"unique", cat(random(), "-", random())},
                                 {"settings", options_.settings}};
    std::string last;
    const auto look_at = [&](const std::string& leader) {
        const nlohmann::json theirs = nlohmann::json::parse(leader, nullptr, false);
        const std::string who = theirs.is_object() ? theirs.value("who", "somebody") : "somebody";
        const std::string difference =
            difference_of_settings(options_.settings, theirs.is_object() ? theirs.value("settings", "") : "");
        if (!difference.empty()) {
            throw Error(cat("another run is led under the name ", options_.run, " in that etcd, by ", who, ": ",
                            difference, ". Start all with the same settings, or give this run another run.folder."));
        }
        if (who != last) {
            last = who;
            told(cat("standing by: ", who, " leads the run"));
        }
    };
    const auto gives_up = [&] { return stop.load(); };
    leadership_ =
        Leadership::win(etcd_, {.run = options_.run, .candidate = mine.dump(), .lease_seconds = options_.lease_seconds},
                        gives_up, look_at);
    if (leadership_) {
        told(cat("leading the run now (term ", leadership_->term(), ")"));
    }
    return leadership_ != nullptr;
}

}  // namespace accrue
