#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace accrue {

// The one pool of threads of a process. The calling thread works too, so Pool(1) starts none.
class Pool {
public:
    // threads = 0 takes all the processors this process may use.
    explicit Pool(int threads);
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    [[nodiscard]] int threads() const { return static_cast<int>(workers_.size()) + 1; }

    // Calls body(item, thread) once for each item in 0..items-1, thread in 0..threads()-1, and returns when all are
    // done. Items are handed out in order to whoever is free: nothing may depend on which thread takes which item, so
    // each item must own what it writes. The first exception is rethrown here, after the others have finished.
    // One call at a time, from one thread; body must not call back.
    void run(int64_t items, const std::function<void(int64_t item, int thread)>& body);

private:
    void work(int thread);
    void take_items(int thread);
    template <class Condition>
    void wait(std::condition_variable& told, const Condition& condition);

    bool spins_ = false;
    std::mutex mutex_;
    std::condition_variable start_;
    std::condition_variable finish_;
    const std::function<void(int64_t, int)>* body_ = nullptr;
    int64_t items_ = 0;
    std::atomic<int64_t> next_{0};
    std::atomic<int> busy_{0};
    std::atomic<uint64_t> round_{0};
    std::atomic<bool> stopping_{false};
    std::exception_ptr failure_;
    std::vector<std::jthread> workers_;
};

}  // namespace accrue
