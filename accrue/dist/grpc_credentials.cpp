#include "accrue/dist/grpc_credentials.h"

#include <cstdlib>

#include <grpc/grpc_security_constants.h>
#include <grpc/support/log.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/dist/certificates.h"
#include "accrue/dist/wire_messages.h"

namespace accrue {
namespace {

bool is_in_clear(const NetworkAddress& address, const NetworkSafety& safety) {
    return safety.certificates.empty() && !is_loopback(address);
}

void require_safety(const NetworkAddress& address, const NetworkSafety& safety) {
    if (is_in_clear(address, safety) && !safety.insecure_network) {
        throw Error(
            cat("the coordinator's address ", text_of(address),
                " is not this machine's own (127.0.0.1), and without certificates everybody in that network could "
                "read and change what workers say. Give a folder with certificates, or, in a network that only the "
                "workers use, allow insecure_network."));
    }
}

// A file of a folder of certificates; `marks` is what such a file holds.
std::string pem_text(const NetworkSafety& safety, const std::string& name, const std::string& marks) {
    const std::filesystem::path path = safety.certificates / name;
    if (!std::filesystem::exists(path)) {
        throw Error(cat("the folder of certificates ", safety.certificates.string(), " has no ", name,
                        ": a coordinator needs ca.pem, server.pem and server.key, a worker ca.pem, worker.pem and "
                        "worker.key"));
    }
    std::string text = read_text(path);
    if (text.find("-----BEGIN") == std::string::npos || text.find(marks) == std::string::npos) {
        throw Error(cat(path.string(), " holds no ", marks, " in PEM form (-----BEGIN ", marks, "-----)"));
    }
    return text;
}

constexpr const char* kCertificateMark = "CERTIFICATE";
constexpr const char* kKeyMark = "PRIVATE KEY";

// Of one side of a connection: "server" or "worker".
grpc::SslServerCredentialsOptions::PemKeyCertPair pair_of(const NetworkSafety& safety, const std::string& side) {
    grpc::SslServerCredentialsOptions::PemKeyCertPair pair{
        .private_key = pem_text(safety, side + ".key", kKeyMark),
        .cert_chain = pem_text(safety, side + ".pem", kCertificateMark)};
    if (!belong_together(pair.cert_chain, pair.private_key)) {
        throw Error(cat(side, ".key in ", safety.certificates.string(), " is not the key of ", side,
                        ".pem, or one of them is damaged: the two belong together, take both from the same place"));
    }
    return pair;
}

}  // namespace

std::shared_ptr<grpc::ServerCredentials> server_credentials(const NetworkAddress& address,
                                                            const NetworkSafety& safety) {
    require_safety(address, safety);
    if (safety.certificates.empty()) {
        return grpc::InsecureServerCredentials();
    }
    grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = pem_text(safety, "ca.pem", kCertificateMark);
    options.pem_key_cert_pairs.push_back(pair_of(safety, "server"));
    return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> worker_credentials(const NetworkAddress& address,
                                                             const NetworkSafety& safety) {
    require_safety(address, safety);
    if (safety.certificates.empty()) {
        return grpc::InsecureChannelCredentials();
    }
    const auto root = pem_text(safety, "ca.pem", kCertificateMark);
    const auto pair = pair_of(safety, "worker");
    return grpc::SslCredentials(
        {.pem_root_certs = root, .pem_private_key = pair.private_key, .pem_cert_chain = pair.cert_chain});
}

std::string safety_warning(const NetworkAddress& address, const NetworkSafety& safety) {
    if (!is_in_clear(address, safety)) {
        return "";
    }
    return cat(
        "warning: workers and the coordinator at ", text_of(address),
        " talk in clear: everybody in that network can read the join token, settings, samples that are asked for, and "
        "losses, and can take part.");
}

void quiet_grpc() {
    if (std::getenv("GRPC_VERBOSITY") == nullptr) {
        gpr_set_log_function([](gpr_log_func_args* /*args*/) {});
        quiet_protobuf();
    }
}

}  // namespace accrue
