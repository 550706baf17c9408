#include "accrue/cli/standby.h"

#include <algorithm>
#include <random>
#include <sstream>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/cli/work_command.h"

namespace accrue {
namespace {}  // namespace

std::string difference_of(const std::string& ours, const std::string& theirs) {
    std::istringstream our_lines(ours);
    std::istringstream their_lines(theirs);
    std::string our_line;
    std::string their_line;
    while (true) {
        const bool has_ours = static_cast<bool>(std::getline(our_lines, our_line));
        const bool has_theirs = static_cast<bool>(std::getline(their_lines, their_line));
        if (!has_ours && !has_theirs) {
            return "";
        }
        our_line = has_ours ? our_line : "nothing";
        their_line = has_theirs ? their_line : "nothing";
        if (our_line != their_line) {
            return cat("\"", our_line.substr(0, our_line.find(" #")), "\" here, \"",
                       their_line.substr(0, their_line.find(" #")), "\" there");
        }
    }
}

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
            difference_of(options_.settings, theirs.is_object() ? theirs.value("settings", "") : "");
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
