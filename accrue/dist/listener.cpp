#include "accrue/dist/listener.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

// Of the files that a process may have open: for all it does beside talking.
constexpr int kReservedFiles = 64;
constexpr int kMostFiles = 1 << 20;
constexpr int kWaitingConnections = 1024;
// Where nothing can be accepted although somebody waits.
constexpr std::chrono::milliseconds kPause{100};

int most_files() {
    struct rlimit limit {};
    const bool is_known = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < kMostFiles;
    return is_known ? static_cast<int>(limit.rlim_cur) : kMostFiles;
}

int64_t port_of(int listener) {
    sockaddr_storage own{};
    socklen_t length = sizeof(own);
    if (getsockname(listener, reinterpret_cast<sockaddr*>(&own), &length) != 0) {
        return 0;
    }
    return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(own).sin_port);
}

// -1 = it does not work, and errno says why.
int listen_at(const addrinfo& where, int64_t port) {
    sockaddr_storage address{};
    std::memcpy(&address, where.ai_addr, where.ai_addrlen);
    (where.ai_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                 : reinterpret_cast<sockaddr_in&>(address).sin_port) =
        htons(static_cast<uint16_t>(port));
    const int listener = socket(where.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, where.ai_protocol);
    const int on = 1;
    if (listener >= 0 && setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(listener, reinterpret_cast<const sockaddr*>(&address), where.ai_addrlen) == 0 &&
        listen(listener, kWaitingConnections) == 0) {
        return listener;
    }
    const int error = errno;
    if (listener >= 0) {
        close(listener);
    }
    errno = error;
    return -1;
}

std::string peer_text(const sockaddr_storage& peer, socklen_t length) {
    std::array<char, NI_MAXHOST> host{};
    std::array<char, NI_MAXSERV> port{};
    const auto* const address = reinterpret_cast<const sockaddr*>(&peer);
    if (getnameinfo(address, length, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return "somebody";
    }
    return peer.ss_family == AF_INET6 ? cat("ipv6:[", host.data(), "]:", port.data())
                                      : cat("ipv4:", host.data(), ":", port.data());
}

}  // namespace

Listener::Listener(const NetworkAddress& address) : address_(address), end_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE;
    addrinfo* first = nullptr;  // stays so where there is an error
    (void)getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &first);
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(first, &freeaddrinfo);
    std::string why;
    for (const addrinfo* each = first; each != nullptr; each = each->ai_next) {
        const int listener = listen_at(*each, address_.port);
        if (listener < 0) {
            why = std::strerror(errno);
            continue;
        }
        listeners_.push_back(listener);
        address_.port = port_of(listener);
    }
    if (listeners_.empty() || end_ < 0) {
        const std::string known = why_not_listening(address);
        close(end_);
        throw Error(cat("the coordinator cannot listen at ", text_of(address), ": ", known.empty() ? why : known));
    }
}

Listener::~Listener() {
    const uint64_t one = 1;
    if (thread_.joinable() && write(end_, &one, sizeof(one)) == sizeof(one)) {
        thread_.join();
    }
    for (const int listener : listeners_) {
        close(listener);
    }
    close(end_);
}

void Listener::start(Callbacks callbacks) {
    callbacks_ = std::move(callbacks);
    const int most = most_files();
    highest_ = most - std::max(kReservedFiles, most / 10);
    thread_ = std::thread([this] { run(); });
}

void Listener::run() {
    std::vector<pollfd> awaited = {{.fd = end_, .events = POLLIN, .revents = 0}};
    for (const int listener : listeners_) {
        awaited.push_back({.fd = listener, .events = POLLIN, .revents = 0});
    }
    while (true) {
        (void)poll(awaited.data(), awaited.size(), -1);
        if (awaited.front().revents != 0) {
            return;
        }
        for (const pollfd& each : awaited) {
            if (each.revents != 0) {
                accept_from(each.fd);
            }
        }
    }
}

void Listener::accept_from(int listener) {
    sockaddr_storage peer{};
    socklen_t length = sizeof(peer);
    const int connection = accept4(listener, reinterpret_cast<sockaddr*>(&peer), &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            std::this_thread::sleep_for(kPause);
        }
        return;
    }
    if (connection > highest_) {
        close(connection);
        callbacks_.too_many(peer_text(peer, length));
        return;
    }
    const int on = 1;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    callbacks_.taken(connection);
}

}  // namespace accrue
