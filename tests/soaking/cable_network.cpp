#include "tests/soaking/cable_network.h"

#include <atomic>
#include <sstream>
#include <vector>

#include "tests/support.h"
#include <unistd.h>

#include "accrue/base/error.h"

namespace accrue::soaking {
namespace {

std::atomic<int64_t> g_networks = 0;

// Words with spaces between; none has one in it. What it says, if it fails.
std::string failure_of_ip(const std::string& text) {
    std::vector<std::string> words = {"ip"};
    std::istringstream stream(text);
    for (std::string word; stream >> word;) {
        words.push_back(word);
    }
    const testing::ProgramResult result = testing::run_program_at("/usr/bin/env", words);
    return result.exit_code == 0 ? "" : cat("ip ", text, ": ", result.output);
}

void ip(const std::string& text) {
    if (const std::string failure = failure_of_ip(text); !failure.empty()) {
        throw Error(failure);
    }
}

}  // namespace

std::string CableNetwork::why_none() {
    try {
        const CableNetwork tried(1);
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

CableNetwork::CableNetwork(int64_t machines) : machines_(machines), number_(++g_networks) {
    try {
        ip(cat("netns add ", hub()));
        ip(cat("-n ", hub(), " link add switch type bridge"));
        ip(cat("-n ", hub(), " link set switch up"));
        for (int64_t machine = 0; machine < machines_; ++machine) {
            make(machine);
        }
    } catch (const Error&) {
        remove();
        throw;
    }
}

CableNetwork::~CableNetwork() {
    remove();
}

void CableNetwork::make(int64_t machine) const {
    ip(cat("netns add ", name(machine)));
    ip(cat("-n ", name(machine), " link add cable type veth peer name to-", machine, " netns ", hub()));
    ip(cat("-n ", name(machine), " addr add ", address(machine), "/24 dev cable"));
    ip(cat("-n ", name(machine), " link set lo up"));
    ip(cat("-n ", name(machine), " link set cable up"));
    ip(cat("-n ", hub(), " link set to-", machine, " master switch up"));
}

void CableNetwork::remove() const {
    for (int64_t machine = 0; machine < machines_; ++machine) {
        (void)failure_of_ip(cat("netns del ", name(machine)));
    }
    (void)failure_of_ip(cat("netns del ", hub()));
}

std::string CableNetwork::address(int64_t machine) {
    return cat("10.77.0.", machine + 1);
}

std::string CableNetwork::name(int64_t machine) const {
    return cat("accrue-soak-", getpid(), "-", number_, "-", machine);
}

std::string CableNetwork::hub() const {
    return cat("accrue-soak-", getpid(), "-", number_, "-switch");
}

Command CableNetwork::on(int64_t machine, const Command& command) const {
    Command there{.program = "/usr/bin/env",
                  .arguments = {"ip", "netns", "exec", name(machine), command.program.string()}};
    there.arguments.insert(there.arguments.end(), command.arguments.begin(), command.arguments.end());
    return there;
}

void CableNetwork::pull(int64_t machine) const {
    ip(cat("-n ", hub(), " link set to-", machine, " down"));
}

void CableNetwork::plug_in(int64_t machine) const {
    ip(cat("-n ", hub(), " link set to-", machine, " up"));
}

}  // namespace accrue::soaking
