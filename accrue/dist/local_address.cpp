#include "accrue/dist/local_address.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

// An IPv4 or IPv6 address as text, without a port; "" for other kinds. The loopback interface has all of 127.0.0.0/8.
std::string text_of(const sockaddr* address) {
    char text[INET6_ADDRSTRLEN] = "";
    if (address != nullptr && address->sa_family == AF_INET) {
        inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof(text));
    } else if (address != nullptr && address->sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof(text));
    }
    return std::strncmp(text, "127.", 4) == 0 ? "127.0.0.1" : text;
}

std::vector<std::string> addresses_of_interfaces() {
    ifaddrs* first = nullptr;
    if (getifaddrs(&first) != 0) {
        throw Error(cat("cannot list this machine's network interfaces: ", std::strerror(errno)));
    }
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, &freeifaddrs);
    std::vector<std::string> addresses;
    for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
        if (std::string text = text_of(each->ifa_addr); !text.empty()) {
            addresses.push_back(std::move(text));
        }
    }
    return addresses;
}

}  // namespace

void require_local_address(const std::string& address) {
    const std::vector<std::string> ours = addresses_of_interfaces();
    addrinfo* first = nullptr;  // stays so where there is an error
    const int error = getaddrinfo(address.c_str(), nullptr, nullptr, &first);
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(first, &freeaddrinfo);
    for (const addrinfo* each = first; each != nullptr; each = each->ai_next) {
        if (std::ranges::find(ours, text_of(each->ai_addr)) != ours.end()) {
            return;
        }
    }
    std::string known;
    for (const std::string& each : ours) {
        known += (known.empty() ? "" : ", ") + each;
    }
    throw Error(cat("cannot meet other workers at '", address,
                    "': ", error != 0 ? gai_strerror(error) : "it is none of this machine's addresses",
                    ". They are: ", known, "."));
}

}  // namespace accrue
