#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace accrue {

// Says that somebody is alive: at once, and then again and again, in a thread. Whether anybody hears it, others find out: Errors
// of beat() are dropped. Each beat says how long it is to the next.
class Heartbeat {
public:
    explicit Heartbeat(std::function<std::chrono::milliseconds()> beat);
    // Waits for a beat() that is under way.
    ~Heartbeat();
    // No beat comes any more; waits for one that is under way.
    void end();
    Heartbeat(const Heartbeat&) = delete;
    Heartbeat& operator=(const Heartbeat&) = delete;

private:
    void run();

    const std::function<std::chrono::milliseconds()> beat_;
    std::mutex mutex_;
    std::mutex ending_;  // one at a time waits for the thread
    std::condition_variable changed_;
    bool ends_ = false;
    std::thread thread_;  // after all that it uses
};

}  // namespace accrue
