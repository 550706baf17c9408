#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

namespace accrue {

// Loads items ahead in a thread of its own, in order, so that loading and using overlap. next() is for one thread.
template <class Item>
class Prefetch {
public:
    // `load` gives the next item, or nothing at the end; it is called by one thread, and not again after the end or an
    // exception. At most `ahead` items wait or are in the making.
    explicit Prefetch(std::function<std::optional<Item>()> load, size_t ahead = 1)
        : load_(std::move(load)),
          ahead_(ahead),
          // Last, because it reads the others.
          thread_([this](const std::stop_token& stop) { work(stop); }) {}

    Prefetch(const Prefetch&) = delete;
    Prefetch& operator=(const Prefetch&) = delete;

    // The next item; waits until it is there. Nothing at the end. What `load` threw is thrown here, after the items
    // before it, each time.
    [[nodiscard]] std::optional<Item> next() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !ready_.empty() || ended_; });
        if (!ready_.empty()) {
            std::optional<Item> item(std::move(ready_.front()));
            ready_.pop_front();
            changed_.notify_all();
            return item;
        }
        if (failure_) {
            std::rethrow_exception(failure_);
        }
        return std::nullopt;
    }

private:
    void work(const std::stop_token& stop) {
        while (wait_for_room(stop)) {
            std::exception_ptr failure;
            std::optional<Item> item = load_or_fail(failure);
            const bool ended = !item.has_value();
            {
                const std::lock_guard lock(mutex_);
                if (!ended) {
                    ready_.push_back(std::move(*item));
                }
                failure_ = std::move(failure);
                ended_ = ended;
            }
            changed_.notify_all();
            if (ended) {
                return;
            }
        }
    }

    // A function of its own: with `item = load_()` inside the loop gcc 12 drops the store that made the item empty, and
    // after a throw it looks full (from -O1 on, not with -fno-tree-dse; the test of exceptions fails then).
    std::optional<Item> load_or_fail(std::exception_ptr& failure) {
        try {
            return load_();
        } catch (...) {
            failure = std::current_exception();
            return std::nullopt;
        }
    }

    // False: asked to stop.
    bool wait_for_room(const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        return changed_.wait(lock, stop, [this] { return ready_.size() < ahead_; }) && !stop.stop_requested();
    }

    std::function<std::optional<Item>()> load_;
    size_t ahead_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::deque<Item> ready_;
    std::exception_ptr failure_;
    bool ended_ = false;
    // Asks the thread to stop and waits for it before anything else goes.
    std::jthread thread_;
};

}  // namespace accrue
