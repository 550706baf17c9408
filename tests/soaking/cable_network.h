#pragma once

#include <cstdint>
#include <string>

#include "tests/soaking/traced_run.h"

namespace accrue::soaking {

// Machines in a network: each is a network namespace with one cable (veth) to a switch (a bridge), which can be pulled. What
// is on its way then is lost, and nobody is told that a connection has ended.
class CableNetwork {
public:
    // Why there can be none here: no right to make one, or no `ip`. Empty: there can.
    [[nodiscard]] static std::string why_none();

    explicit CableNetwork(int64_t machines);
    ~CableNetwork();
    CableNetwork(const CableNetwork&) = delete;
    CableNetwork& operator=(const CableNetwork&) = delete;

    [[nodiscard]] static std::string address(int64_t machine);
    // The same on that machine. It is the same process that then becomes the program.
    [[nodiscard]] Command on(int64_t machine, const Command& command) const;
    void pull(int64_t machine) const;
    void plug_in(int64_t machine) const;

private:
    [[nodiscard]] std::string name(int64_t machine) const;
    [[nodiscard]] std::string hub() const;
    void make(int64_t machine) const;
    void remove() const;

    const int64_t machines_;
    const int64_t number_;  // of this network, in this process
};

}  // namespace accrue::soaking
