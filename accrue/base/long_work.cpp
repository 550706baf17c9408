#include "accrue/base/long_work.h"

namespace accrue {

void LongWork::run(int64_t items, const std::function<void(int64_t)>& body) const {
    if (pool != nullptr) {
        pool->run(items, [&](int64_t item, int) { body(item); });
        return;
    }
    for (int64_t item = 0; item < items; ++item) {
        body(item);
    }
}

WorkCount::WorkCount(const LongWork& work, int64_t total) : work_(work), total_(total) {
    add(0);
}

void WorkCount::add(int64_t done) {
    if (work_.told) {
        const std::lock_guard lock(mutex_);
        done_ += done;
        work_.told(done_, total_);
    }
}

}  // namespace accrue
