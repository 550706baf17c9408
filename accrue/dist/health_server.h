#pragma once

#include <functional>
#include <memory>
#include <string>

namespace accrue {

// How a process of a run is, for whoever starts it anew where it is not well.
struct Health {
    bool is_well = true;
    std::string words;  // one line
};

// Answers GET /health of service managers and clusters: status 200 where all is well, else 503, and the words. Says nothing else
// to anybody, and nothing secret.
class HealthServer {
public:
    // `asked` may be called by several threads at once. `address`: host:port, port 0 = any that is free. An Error if nobody can
    // listen there.
    HealthServer(const std::string& address, std::function<Health()> asked);
    ~HealthServer();
    HealthServer(const HealthServer&) = delete;
    HealthServer& operator=(const HealthServer&) = delete;

    // host:port, with the port that was picked.
    [[nodiscard]] const std::string& address() const { return address_; }

private:
    struct Server;

    std::string address_;
    std::unique_ptr<Server> server_;
};

}  // namespace accrue
