#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace accrue {

// Says that somebody is alive: at once, and then again and again, in a thread. Whether anybody hears it, others find out: Errors
// of beat() are dropped.
class Heartbeat {
public:
    Heartbeat(std::chrono::milliseconds interval, std::function<void()> beat);
    // Waits for a beat() that is under way.
    ~Heartbeat();
    Heartbeat(const Heartbeat&) = delete;
    Heartbeat& operator=(const Heartbeat&) = delete;

private:
    void run();

    const std::chrono::milliseconds interval_;
    const std::function<void()> beat_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ends_ = false;
    std::thread thread_;  // after all that it uses
};

}  // namespace accrue
