#include "accrue/base/pool.h"

#include <algorithm>
#include <chrono>

#include "accrue/base/machine.h"

namespace accrue {
namespace {

int all_processors() {
    const int64_t usable = usable_processors();
    return usable > 0 ? static_cast<int>(usable) : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

// How long a thread looks for the next work before it sleeps. To wake it takes longer than many kernels, above all in a
// virtual machine; the pauses between kernels are much shorter than this.
constexpr std::chrono::microseconds kSpin{500};

template <class Condition>
bool seen_while_spinning(const Condition& condition) {
    constexpr int kLooksBetweenYields = 64;
    for (const auto end = std::chrono::steady_clock::now() + kSpin; std::chrono::steady_clock::now() < end;) {
        for (int look = 0; look < kLooksBetweenYields; ++look) {
            if (condition()) {
                return true;
            }
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
        std::this_thread::yield();  // to other processes, where the machine has more of them than processors
    }
    return false;
}

}  // namespace

// Threads that outnumber the processors would spin away the time of those that work.
Pool::Pool(int threads) : spins_(threads <= all_processors()) {
    const int wanted = threads > 0 ? threads : all_processors();
    for (int thread = 1; thread < wanted; ++thread) {
        workers_.emplace_back([this, thread] { work(thread); });
    }
}

Pool::~Pool() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    start_.notify_all();
}

void Pool::run(int64_t items, const std::function<void(int64_t, int)>& body) {
    if (workers_.empty() || items <= 1) {
        for (int64_t item = 0; item < items; ++item) {
            body(item, 0);
        }
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        body_ = &body;
        items_ = items;
        failure_ = nullptr;
        next_ = 0;
        busy_ = static_cast<int>(workers_.size());
        ++round_;  // after all else: a spinning thread takes items as soon as it sees this
    }
    start_.notify_all();
    take_items(0);
    wait(finish_, [this] { return busy_ == 0; });
    if (failure_) {
        std::rethrow_exception(failure_);
    }
}

template <class Condition>
void Pool::wait(std::condition_variable& told, const Condition& condition) {
    if (spins_ && seen_while_spinning(condition)) {
        return;
    }
    std::unique_lock lock(mutex_);
    told.wait(lock, condition);
}

void Pool::work(int thread) {
    uint64_t seen = 0;
    while (true) {
        wait(start_, [&] { return stopping_ || round_ != seen; });
        if (stopping_) {
            return;
        }
        seen = round_;
        take_items(thread);
        if (--busy_ == 0) {
            const std::lock_guard lock(mutex_);  // so that it is not told between its last look and its sleep
            finish_.notify_one();
        }
    }
}

void Pool::take_items(int thread) {
    for (int64_t item = next_++; item < items_; item = next_++) {
        try {
            (*body_)(item, thread);
        } catch (...) {
            const std::lock_guard lock(mutex_);
            if (!failure_) {
                failure_ = std::current_exception();
            }
        }
    }
}

}  // namespace accrue
