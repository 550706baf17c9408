#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "accrue/dist/network_address.h"

namespace accrue {

// Accepts connections. gRPC, left to do that itself, takes none any more, for good, once the process has had as many files open
// as it may: strangers who connect often enough would keep all others out. Here some are kept free, and whoever comes too many
// is turned away until there is room.
class Listener {
public:
    // Listens from now on, and takes connections after start(). An Error if nobody can listen there. Port 0: any that is free.
    explicit Listener(const NetworkAddress& address);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    struct Callbacks {
        std::function<void(int connection)> taken;              // whose it is from then on
        std::function<void(const std::string& peer)> too_many;  // named as gRPC does
    };
    // By a thread of its own, until this goes.
    void start(Callbacks callbacks);

    // With the port that was picked.
    [[nodiscard]] const NetworkAddress& address() const { return address_; }

private:
    void run();
    void accept_from(int listener);

    NetworkAddress address_;
    std::vector<int> listeners_;
    int end_ = -1;     // becomes readable at the end
    int highest_ = 0;  // of the numbers that connections may have: numbers are given from the lowest on
    Callbacks callbacks_;
    std::thread thread_;
};

}  // namespace accrue
