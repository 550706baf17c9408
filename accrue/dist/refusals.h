#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace accrue {

// Who was refused, and why, for a log that nobody can fill: what the same machine hears again is told the 10th, 100th, 1000th...
// time, and of many different ones only so many are named. For several threads.
class Refusals {
public:
    // `peer` as gRPC writes it: "ipv4:10.0.0.7:39312".
    void note(const std::string& peer, const std::string& why);
    // Lines since the last call.
    [[nodiscard]] std::vector<std::string> take();

private:
    std::mutex mutex_;
    std::map<std::string, int64_t> times_;
    std::vector<std::string> lines_;
};

// How many workers may come for the first time in a second, so that a storm of them does not keep all others from working.
class JoinLimit {
public:
    explicit JoinLimit(double per_second) : per_second_(per_second), left_(per_second) {}

    // May this worker, of which something was heard at that time, take part now? Whoever was let in once may.
    [[nodiscard]] bool admits(const std::string& worker, double now);

private:
    const double per_second_;
    std::mutex mutex_;
    double left_;
    double last_ = 0;
    std::set<std::string> known_;
};

// The machine in a peer's name, without its port.
[[nodiscard]] std::string machine_of(const std::string& peer);

}  // namespace accrue
