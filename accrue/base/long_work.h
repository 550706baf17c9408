#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

#include "accrue/base/pool.h"

namespace accrue {

// How a piece of work that may take seconds is done: by which threads, and who is told how far it is.
struct LongWork {
    Pool* pool = nullptr;  // none = the calling thread alone
    // By one thread at a time, not always the same one; none = nobody asks.
    std::function<void(int64_t done, int64_t total)> told = nullptr;

    // Calls body(item) once for each item in 0..items-1, as Pool::run does.
    void run(int64_t items, const std::function<void(int64_t item)>& body) const;
};

// Adds up what the threads of a long work have done, and tells.
class WorkCount {
public:
    // Tells at once that nothing is done yet.
    WorkCount(const LongWork& work, int64_t total);
    void add(int64_t done);

private:
    const LongWork& work_;
    std::mutex mutex_;
    int64_t done_ = 0;
    int64_t total_;
};

}  // namespace accrue
