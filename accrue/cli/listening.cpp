#include "accrue/cli/listening.h"

#include <array>
#include <cstdlib>

#include <fmt/format.h>
#include <sys/random.h>

#include "accrue/base/error.h"
#include "accrue/cli/work_command.h"
#include "accrue/dist/grpc_credentials.h"
#include "accrue/dist/network_address.h"
#include "accrue/dist/own_address.h"

namespace accrue {
namespace {

bool is_every_interface(const NetworkAddress& address) {
    return address.host == "0.0.0.0" || address.host == "::";
}

void require_token(const NetworkAddress& address, const std::string& token) {
    if (token.empty() && !is_loopback(address)) {
        throw Error(cat("other machines can reach ", text_of(address),
                        ", so workers need a join token, a secret that only they know. Set ", kTokenVariable,
                        " in the environment here and for every worker, for example to what `openssl rand -hex 16` "
                        "prints."));
    }
}

void require_can_listen(const NetworkAddress& address) {
    if (const std::string why = why_not_listening(address); !why.empty()) {
        throw Error(cat("cannot listen at ", text_of(address), ": ", why));
    }
}

}  // namespace

std::string random_token() {
    std::array<unsigned char, 16> bytes{};
    if (getrandom(bytes.data(), bytes.size(), 0) != std::ssize(bytes)) {
        throw Error("the system gives no random bytes, from which the workers' secret is made.");
    }
    std::string text;
    for (const unsigned char byte : bytes) {
        text += fmt::format("{:02x}", byte);
    }
    return text;
}

std::string token_of_environment() {
    const char* const token = std::getenv(kTokenVariable);
    return token == nullptr ? "" : token;
}

GrpcServerOptions listening_options(const std::string& listen, const Settings::Workers& settings) {
    const NetworkAddress address = network_address_of(listen);
    const NetworkSafety safety{.certificates = settings.certificates, .insecure_network = settings.insecure_network};
    if (!safety.certificates.empty() || safety.insecure_network || is_loopback(address)) {
        (void)server_credentials(address, safety);
    } else {
        throw Error(cat("other machines can reach ", text_of(address),
                        ", and without certificates everybody in that network could read and change what workers say. "
                        "Make some with accrue serve --make-certificates FOLDER and set workers.certificates to that "
                        "folder; or, in a network that only the workers use, set workers.insecure_network = true."));
    }
    const std::string token = settings.token.empty() ? token_of_environment() : settings.token;
    require_token(address, token);
    require_can_listen(address);
    return {.address = listen,
            .terms = {.program_version = program_version(), .run = {}, .token = token},
            .safety = safety};
}

std::string join_text(const std::string& listening, const GrpcServerOptions& options) {
    NetworkAddress address = network_address_of(listening);
    std::vector<std::string> others;
    if (is_every_interface(address)) {
        others = addresses_of_this_machine();
        if (address.host == "0.0.0.0") {  // which is IPv4's alone
            std::erase_if(others, [](const std::string& each) { return each.find(':') != std::string::npos; });
        }
        address.host = others.empty() ? "ADDRESS" : others.front();
    }
    std::string text = "    ";
    if (!options.terms.token.empty()) {
        text += cat(kTokenVariable, "=... ");
    }
    text += cat("accrue work --join ", text_of(address));
    if (!options.safety.certificates.empty()) {
        text += " --certificates FOLDER";
    } else if (!is_loopback(address)) {
        text += " --insecure-network";
    }
    for (size_t other = 1; other < others.size(); ++other) {
        text += cat(other == 1 ? "\n    (or at another address of this machine: " : ", ", others[other],
                    other + 1 == others.size() ? ")" : "");
    }
    return text;
}

std::vector<std::string> network_warnings(const std::string& listening, const NetworkSafety& safety) {
    const NetworkAddress address = network_address_of(listening);
    if (is_loopback(address)) {
        return {};
    }
    std::vector<std::string> lines;
    if (const std::string warning = safety_warning(address, safety); !warning.empty()) {
        lines.push_back(warning);
    }
    lines.emplace_back(
        "note: sums and weights travel from worker to worker in clear, whatever is set here: use a network that only "
        "they are in.");
    return lines;
}

}  // namespace accrue
