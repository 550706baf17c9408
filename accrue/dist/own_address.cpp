#include "accrue/dist/own_address.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

class Socket {
public:
    explicit Socket(const addrinfo& where)
        : number_(socket(where.ai_family, where.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, where.ai_protocol)) {}
    ~Socket() {
        if (number_ >= 0) {
            close(number_);
        }
    }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;

    [[nodiscard]] int number() const { return number_; }

private:
    int number_;
};

// As numbers, without a port.
std::string number_text(const sockaddr* address, socklen_t length) {
    std::array<char, NI_MAXHOST> text{};
    return getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0 ? text.data() : "";
}

// 0 = connected, else an error number.
int error_of_connecting(const Socket& socket, const addrinfo& where, std::chrono::milliseconds limit) {
    if (socket.number() < 0) {
        return errno;
    }
    if (connect(socket.number(), where.ai_addr, where.ai_addrlen) == 0) {
        return 0;
    }
    if (errno != EINPROGRESS) {
        return errno;
    }
    pollfd awaited{.fd = socket.number(), .events = POLLOUT, .revents = 0};
    if (poll(&awaited, 1, static_cast<int>(limit.count())) != 1) {
        return ETIMEDOUT;
    }
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &length);
    return error;
}

bool is_for_others(const ifaddrs& each) {
    if (each.ifa_addr == nullptr || (each.ifa_flags & IFF_UP) == 0 || (each.ifa_flags & IFF_LOOPBACK) != 0) {
        return false;
    }
    if (each.ifa_addr->sa_family == AF_INET6) {
        return !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(each.ifa_addr)->sin6_addr);
    }
    return each.ifa_addr->sa_family == AF_INET;
}

}  // namespace

Reached reach(const NetworkAddress& address, std::chrono::milliseconds limit) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* first = nullptr;  // stays so where there is an error
    const int problem = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &first);
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(first, &freeaddrinfo);
    if (problem != 0) {
        return {.why_not = gai_strerror(problem)};
    }
    std::string why_not;
    for (const addrinfo* each = first; each != nullptr; each = each->ai_next) {
        const Socket socket(*each);
        if (const int error = error_of_connecting(socket, *each, limit); error != 0) {
            why_not = std::strerror(error);
            continue;
        }
        sockaddr_storage own{};
        socklen_t length = sizeof(own);
        if (getsockname(socket.number(), reinterpret_cast<sockaddr*>(&own), &length) == 0) {
            return {.own_address = number_text(reinterpret_cast<const sockaddr*>(&own), length)};
        }
    }
    return {.why_not = why_not};
}

std::vector<std::string> addresses_of_this_machine() {
    ifaddrs* first = nullptr;
    if (getifaddrs(&first) != 0) {
        return {};
    }
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, &freeifaddrs);
    std::vector<std::string> addresses;
    for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
        if (is_for_others(*each)) {
            const bool is_ipv6 = each->ifa_addr->sa_family == AF_INET6;
            addresses.push_back(number_text(each->ifa_addr, is_ipv6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in)));
        }
    }
    std::stable_partition(addresses.begin(), addresses.end(),
                          [](const std::string& each) { return each.find(':') == std::string::npos; });
    return addresses;
}

}  // namespace accrue
