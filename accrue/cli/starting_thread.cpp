#include "accrue/cli/starting_thread.h"

#include <utility>

namespace accrue {

StartingThread::StartingThread() : thread_([this] { serve(); }) {}

StartingThread::~StartingThread() {
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

void StartingThread::run(const std::function<void()>& work) {
    std::packaged_task<void()> task(work);
    std::future<void> done = task.get_future();
    {
        const std::lock_guard lock(mutex_);
        work_ = std::move(task);
    }
    changed_.notify_one();
    done.get();
}

void StartingThread::serve() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return ends_ || work_.valid(); });
        if (!work_.valid()) {
            return;
        }
        std::packaged_task<void()> work = std::exchange(work_, {});
        lock.unlock();
        work();
        lock.lock();
    }
}

}  // namespace accrue
