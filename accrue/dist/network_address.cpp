#include "accrue/dist/network_address.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <vector>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

using ResolvedAddresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

ResolvedAddresses resolve(const NetworkAddress& address) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* first = nullptr;  // stays so where there is an error
    (void)getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &first);
    return {first, &freeaddrinfo};
}

bool is_loopback_address(const sockaddr* address) {
    if (address->sa_family == AF_INET) {
        return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
    }
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// The error number of an attempt to listen there; 0 = it succeeded.
int error_of_listening(const addrinfo& where) {
    const int socket_number = socket(where.ai_family, where.ai_socktype | SOCK_CLOEXEC, where.ai_protocol);
    if (socket_number < 0) {
        return errno;
    }
    const int on = 1;  // as gRPC has it: connections that have just ended do not matter
    setsockopt(socket_number, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const bool works = bind(socket_number, where.ai_addr, where.ai_addrlen) == 0 && listen(socket_number, 1) == 0;
    const int error = works ? 0 : errno;
    close(socket_number);
    return error;
}

std::string listening_error_text(const NetworkAddress& address, int error) {
    switch (error) {
        case EADDRINUSE:
            return cat("another program has port ", address.port,
                       ". Stop that one, or give another port (0 = any that is free)");
        case EADDRNOTAVAIL:
            return cat(address.host, " is none of this machine's addresses. `ip address` lists them");
        case EACCES:
            return cat("only the system's administrator may use port ", address.port, ". Give one from 1024 on");
        default:
            return std::strerror(error);
    }
}

}  // namespace

NetworkAddress network_address_of(const std::string& text) {
    const auto colon = text.rfind(':');
    std::string host = text.substr(0, colon == std::string::npos ? 0 : colon);
    const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (has_brackets) {
        host = host.substr(1, host.size() - 2);
    }
    int64_t port = -1;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + (colon == std::string::npos ? 0 : colon + 1), end, port);
    const bool is_host = !host.empty() && host.find_first_of("/[]%\\ \t\n") == std::string::npos &&
                         (has_brackets || host.find(':') == std::string::npos);
    if (!is_host || read.ec != std::errc() || read.ptr != end || port < 0 || port > 65535) {
        throw Error(cat("'", text, "' is no address: it should read host:port, as in 10.0.0.7:7700 or [fd00::7]:7700"));
    }
    return {.host = std::move(host), .port = port};
}

std::string text_of(const NetworkAddress& address) {
    const bool is_ipv6 = address.host.find(':') != std::string::npos;
    return is_ipv6 ? cat("[", address.host, "]:", address.port) : cat(address.host, ":", address.port);
}

NetworkAddress every_interface_for(const NetworkAddress& called) {
    bool has_ipv4 = false;
    bool has_ipv6 = false;
    const ResolvedAddresses all = resolve(called);
    for (const addrinfo* each = all.get(); each != nullptr; each = each->ai_next) {
        has_ipv4 = has_ipv4 || each->ai_family == AF_INET;
        has_ipv6 = has_ipv6 || each->ai_family == AF_INET6;
    }
    return {.host = has_ipv6 && !has_ipv4 ? "::" : "0.0.0.0", .port = called.port};
}

bool is_loopback(const NetworkAddress& address) {
    const ResolvedAddresses all = resolve(address);
    for (const addrinfo* each = all.get(); each != nullptr; each = each->ai_next) {
        if (!is_loopback_address(each->ai_addr)) {
            return false;
        }
    }
    return all != nullptr;
}

std::string why_not_listening(const NetworkAddress& address) {
    const ResolvedAddresses all = resolve(address);
    if (all == nullptr) {
        return cat("no address is known of ", address.host);
    }
    for (const addrinfo* each = all.get(); each != nullptr; each = each->ai_next) {
        if (const int error = error_of_listening(*each); error != 0) {
            return listening_error_text(address, error);
        }
    }
    return "";
}

}  // namespace accrue
