#include "accrue/dist/heartbeat.h"

#include <utility>

#include "accrue/base/error.h"

namespace accrue {

Heartbeat::Heartbeat(std::chrono::milliseconds interval, std::function<void()> beat)
    : interval_(interval), beat_(std::move(beat)), thread_([this] { run(); }) {}

Heartbeat::~Heartbeat() {
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void Heartbeat::run() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
        lock.unlock();
        try {
            beat_();
        } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the next one may come through
        }
        lock.lock();
        changed_.wait_for(lock, interval_, [this] { return ends_; });
    }
}

}  // namespace accrue
