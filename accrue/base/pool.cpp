#include "accrue/base/pool.h"

#include <sched.h>

namespace accrue {
namespace {

int usable_processors() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        return CPU_COUNT(&set);
    }
    return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace

Pool::Pool(int threads) {
    const int wanted = threads > 0 ? threads : usable_processors();
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
        next_ = 0;
        busy_ = static_cast<int>(workers_.size());
        failure_ = nullptr;
        ++round_;
    }
    start_.notify_all();
    take_items(0);
    std::unique_lock lock(mutex_);
    finish_.wait(lock, [this] { return busy_ == 0; });
    if (failure_) {
        std::rethrow_exception(failure_);
    }
}

void Pool::work(int thread) {
    uint64_t seen = 0;
    while (true) {
        {
            std::unique_lock lock(mutex_);
            start_.wait(lock, [&] { return stopping_ || round_ != seen; });
            if (stopping_) {
                return;
            }
            seen = round_;
        }
        take_items(thread);
        {
            const std::lock_guard lock(mutex_);
            --busy_;
        }
        finish_.notify_one();
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
