#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/soaking/traced_run.h"
#include <linux/filter.h>
#include <sys/types.h>

namespace accrue::soaking {

// A process in a group of its own that waits before its program begins. What it prints waits in a pipe.
class Child {
public:
    struct Limits {
        std::vector<sock_filter> filter;  // of system calls; empty = none
        int64_t file_bytes = 0;           // the largest file it may write; 0 = any
    };
    Child(const Command& command, const Limits& limits);
    ~Child();
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    [[nodiscard]] pid_t id() const { return id_; }
    void begin() const;
    // To be called after it has ended.
    [[nodiscard]] std::string output() const;

private:
    pid_t id_ = -1;
    int go_ = -1;
    int printed_ = -1;
};

// Kills a process that runs for longer than any job could.
class Watchdog {
public:
    explicit Watchdog(pid_t process);
    ~Watchdog();
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;
    [[nodiscard]] bool has_bitten() const { return bitten_; }

private:
    std::mutex mutex_;
    std::condition_variable_any ended_;
    std::atomic<bool> bitten_ = false;
    std::jthread thread_;
};

}  // namespace accrue::soaking
