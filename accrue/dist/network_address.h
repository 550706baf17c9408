#pragma once

#include <cstdint>
#include <string>

namespace accrue {

// Where to listen, or whom to call.
struct NetworkAddress {
    std::string host;
    int64_t port = 0;
};

// Of "host:port"; an IPv6 address stands in brackets. An Error if it is not one.
[[nodiscard]] NetworkAddress network_address_of(const std::string& text);
[[nodiscard]] std::string text_of(const NetworkAddress& address);

// All interfaces of this machine, for those who call it by that address: of IPv4, unless the address has none.
[[nodiscard]] NetworkAddress every_interface_for(const NetworkAddress& called);

// Nothing that is sent there leaves this machine.
[[nodiscard]] bool is_loopback(const NetworkAddress& address);

// Why nobody can listen there, and what to do, for an error; empty if the reason is another one.
[[nodiscard]] std::string why_not_listening(const NetworkAddress& address);

}  // namespace accrue
