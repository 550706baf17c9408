#include "accrue/cli/join_run.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include "accrue/base/clock.h"
#include "accrue/base/error.h"
#include "accrue/cli/device_option.h"
#include "accrue/cli/listening.h"
#include "accrue/cli/local_meeting.h"
#include "accrue/cli/signals.h"
#include "accrue/dist/grpc_link.h"
#include "accrue/dist/health_server.h"
#include "accrue/dist/own_address.h"
#include "accrue/observe/status_line.h"
#include "accrue/train/team/team_worker.h"

namespace accrue {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{50};
constexpr milliseconds kPauseBetweenTries{500};
constexpr milliseconds kLongestTry{5000};
// Of one that was reached; then it is looked for anew.
constexpr milliseconds kMostPatienceOfLink{60'000};
// Where another may lead by then.
constexpr milliseconds kPatienceWithOneOfSeveral{10'000};

void say(const WorkCommand& command, const std::string& line) {
    if (!command.is_quiet) {
        show(stdout, line + "\n");
    }
}

std::string unique_name() {
    std::array<unsigned char, 3> bytes{};
    if (getrandom(bytes.data(), bytes.size(), 0) != std::ssize(bytes)) {
        throw Error("the system gives no random bytes, from which a worker's name is made. Give it one with --name.");
    }
    const std::string host = host_name();
    return fmt::format("{}-{:02x}{:02x}{:02x}", host.empty() ? "worker" : host, bytes[0], bytes[1], bytes[2]);
}

// So that nobody waits for a sign of life.
void leave_quietly(Link& link) {
    try {
        link.leave();
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): nobody is there to hear it
    }
}

// Leaves the run and ends the process as soon as a signal asks for it. What was computed of the open window is lost with it, and
// nothing else: others compute it again. A worker that ends with its run stays in it, because its leader was asked, too.
class Leaver {
public:
    Leaver(const WorkCommand& command, const StopFlag& stop)
        : command_(command), thread_([this, &stop](const std::stop_token& ends) { run(stop, ends); }) {}

    void use(Link& link) {
        const std::lock_guard lock(mutex_);
        link_ = &link;
    }
    void forget() {
        const std::lock_guard lock(mutex_);
        link_ = nullptr;
    }
    // Who holds it lets others take the run's state from this worker, for which leaving waits a while.
    [[nodiscard]] std::timed_mutex& stays() { return stays_; }
    // The run has ended: a signal that comes now changes nothing.
    void end() {
        thread_.request_stop();
        thread_.join();
    }

private:
    void run(const StopFlag& stop, const std::stop_token& ends) {
        for (; !ends.stop_requested(); std::this_thread::sleep_for(kLook)) {
            if (stop) {
                end_unless_it_stays();
            }
        }
    }
    void end_unless_it_stays() {
        const std::lock_guard lock(mutex_);
        const bool has_no_leader =
            link_ == nullptr || (!command_.meeting.empty() && !LocalMeeting::find(command_.meeting));
        if (command_.ends_with_run && has_no_leader) {
            std::_Exit(static_cast<int>(ExitCode::stopped));
        }
        if (link_ == nullptr) {
            end_by_signal();
        }
        if (!command_.ends_with_run) {
            say(command_, "leaving the run: others compute what was begun here");
            const std::unique_lock nobody_needs_it(stays_, kMostToStay);
            leave_quietly(*link_);
            std::_Exit(static_cast<int>(ExitCode::done));
        }
    }

    static constexpr std::chrono::seconds kMostToStay{10};

    const WorkCommand& command_;
    std::timed_mutex stays_;
    std::mutex mutex_;
    Link* link_ = nullptr;
    std::jthread thread_;  // after all that it uses
};

// A link while it can be left.
class LinkInUse {
public:
    LinkInUse(Leaver& leaver, const GrpcLinkOptions& options) : leaver_(leaver), link_(options) { leaver_.use(link_); }
    ~LinkInUse() { leaver_.forget(); }
    LinkInUse(const LinkInUse&) = delete;
    LinkInUse& operator=(const LinkInUse&) = delete;

    [[nodiscard]] GrpcLink& link() { return link_; }

private:
    Leaver& leaver_;
    GrpcLink link_;
};

// Those of who leads the run, or may come to.
std::vector<NetworkAddress> addresses_of(const std::string& list) {
    std::vector<NetworkAddress> addresses;
    std::istringstream parts(list);
    for (std::string part; std::getline(parts, part, ',');) {
        addresses.push_back(network_address_of(part));
    }
    return addresses;
}

// A coordinator that was reached, and the address of this machine from which it was.
struct FoundCoordinator {
    NetworkAddress coordinator;
    std::string own_address;
};

FoundCoordinator wait_for_coordinator(const WorkCommand& command) {
    const std::vector<NetworkAddress> addresses = addresses_of(command.join);
    const auto start = Clock::now();
    std::string told;
    while (true) {
        std::string why_not;
        for (const NetworkAddress& address : addresses) {
            const Reached reached = reach(address, kLongestTry);
            if (!reached.own_address.empty()) {
                return {.coordinator = address, .own_address = reached.own_address};
            }
            why_not += cat(why_not.empty() ? "" : "; ", addresses.size() > 1 ? cat(text_of(address), ": ") : "",
                           reached.why_not);
        }
        if (seconds_since(start) >= command.patience_seconds) {
            throw Error(cat("the coordinator at ", command.join, " was not reached for ", command.patience_seconds,
                            " s (", why_not, "). Is accrue serve running there, is the address right, and does no ",
                            "firewall close port ", addresses.front().port, "? --patience says how long to try."));
        }
        if (why_not != told) {
            told = why_not;
            say(command, cat("waiting for the coordinator at ", command.join, " (", told, "), for ",
                             command.patience_seconds, " s at most"));
        }
        std::this_thread::sleep_for(kPauseBetweenTries);
    }
}

// What became of one stay with a coordinator.
enum class Stay { ended, lost };

Stay stay(const WorkCommand& command, const std::string& name, Leaver& leaver, std::atomic<bool>& takes_part) {
    takes_part = false;
    const FoundCoordinator found = wait_for_coordinator(command);
    bool was_heard = false;
    LinkInUse used(
        leaver, {.address = text_of(found.coordinator),
                 .worker = name,
                 .terms = {.program_version = program_version(), .run = command.run, .token = token_of_environment()},
                 .safety = {.certificates = command.certificates, .insecure_network = command.insecure_network},
                 .patience = std::min(
                     milliseconds(1000 * command.patience_seconds),
                     command.join.find(',') == std::string::npos ? kMostPatienceOfLink : kPatienceWithOneOfSeveral)});
    TeamWorkerOptions options{.name = name,
                              .address = command.address.empty() ? found.own_address : command.address,
                              .memory = command.memory.empty() ? std::nullopt : parse_byte_size(command.memory),
                              .threads = command.threads,
                              .device = asked_device(command.device),
                              .asked = command.asked,
                              .stays = &leaver.stays()};
    options.note = [&](const std::string& line) {
        was_heard = true;
        takes_part = true;
        say(command, line);
    };
    say(command, cat("worker ", name, ", met by others at ", options.address));
    try {
        const WorkEnd end = work_for_team(used.link(), options);
        say(command, end == WorkEnd::done ? "the run has ended: all its steps are done"
                                          : "the run was stopped: its leader may go on with it another time");
        leaver.end();
        return Stay::ended;
    } catch (const CoordinatorLost& lost) {
        if (!was_heard) {
            throw;
        }
        say(command, cat("the connection is lost: ", lost.what()));
    } catch (const LedAnew&) {
        say(command, "the run is led anew: joining again");
        leave_quietly(used.link());
    } catch (const Error&) {
        leave_quietly(used.link());
        throw;
    }
    return Stay::lost;
}

}  // namespace

ExitCode join_run(const WorkCommand& command) {
    const StopFlag never{false};  // where the parent's word is what counts
    Leaver leaver(command, command.parent > 0 ? never : stop_on_signals());
    const std::string name = command.name.empty() ? unique_name() : command.name;
    std::atomic<bool> takes_part = false;
    std::optional<HealthServer> health;
    if (!command.health.empty()) {
        health.emplace(command.health, [&] {
            return takes_part ? Health{.is_well = true, .words = cat("worker ", name, " takes part in a run")}
                              : Health{.is_well = false, .words = cat("worker ", name, " waits for a run")};
        });
    }
    while (stay(command, name, leaver, takes_part) == Stay::lost) {
    }
    return ExitCode::done;
}

}  // namespace accrue
