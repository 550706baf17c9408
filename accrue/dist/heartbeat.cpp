#include "accrue/dist/heartbeat.h"

#include <utility>

#include "accrue/base/error.h"

namespace accrue {

namespace {

// After the first beat, if it fails; after others as long as last time.
constexpr std::chrono::milliseconds kSoon{500};

}  // namespace

Heartbeat::Heartbeat(std::function<std::chrono::milliseconds()> beat)
    : beat_(std::move(beat)), thread_([this] { run(); }) {}

Heartbeat::~Heartbeat() {
    end();
}

void Heartbeat::end() {
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    changed_.notify_all();
    const std::lock_guard lock(ending_);
    if (thread_.joinable()) {
        thread_.join();
    }
}

void Heartbeat::run() {
    std::chrono::milliseconds next = kSoon;
    std::unique_lock lock(mutex_);
    while (!ends_) {
        lock.unlock();
        try {
            next = beat_();
        } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the next one may come through
        }
        lock.lock();
        changed_.wait_for(lock, next, [this] { return ends_; });
    }
}

}  // namespace accrue
