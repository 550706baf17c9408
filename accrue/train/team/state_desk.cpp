#include "accrue/train/team/state_desk.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "accrue/base/error.h"
#include "accrue/dist/messages.h"

namespace accrue {
namespace {

constexpr size_t kMostWriteBytes = size_t{4} << 20;
constexpr int64_t kReadBytes = int64_t{4} << 20;
constexpr auto kWatchEvery = std::chrono::milliseconds(100);
// A worker's question is answered after so long, even if there is nothing to do.
constexpr auto kPatience = std::chrono::seconds(1);

Packet write_command() {
    return {.words = {{"do", "write"}, {"pieces", nlohmann::ordered_json::array()}}};
}

}  // namespace

void StateDesk::begin(std::string worker, Watch watch) {
    const std::lock_guard lock(mutex_);
    forget();
    worker_ = std::move(worker);
    watch_ = std::move(watch);
}

// Whoever waits for an answer of the session does so for nothing.
void StateDesk::forget() {
    ++session_;
    worker_.clear();
    is_asked_ = is_answered_ = is_busy_ = false;
    writes_ = write_command();
    ahead_.clear();
    changed_.notify_all();
}

int64_t StateDesk::session() const {
    const std::lock_guard lock(mutex_);
    return session_;
}

bool StateDesk::is_open() const {
    const std::lock_guard lock(mutex_);
    return !worker_.empty();
}

// One command at a time. An answer is that of a command of the same session: another worker may have been asked for other bytes.
Packet StateDesk::exchange(std::unique_lock<std::mutex>& lock, Packet command) {
    const int64_t session = session_;
    const auto wait = [&](auto is_ready) {
        while (!changed_.wait_for(lock, kWatchEvery, [&] { return session != session_ || is_ready(); })) {
            const Watch watch = watch_;
            lock.unlock();
            watch();
            lock.lock();
        }
        if (session != session_) {
            throw RosterChanged("the worker that served the run's state is gone, and another one serves it");
        }
    };
    wait([this] { return !is_busy_; });
    is_busy_ = true;
    command_ = std::move(command);
    command_.words["number"] = ++number_;
    is_asked_ = true;
    is_answered_ = false;
    changed_.notify_all();
    try {
        wait([this] { return is_answered_; });
    } catch (...) {
        if (!lock.owns_lock()) {
            lock.lock();
        }
        if (session == session_) {
            is_busy_ = is_asked_ = false;
            changed_.notify_all();
        }
        throw;
    }
    is_busy_ = is_asked_ = false;
    changed_.notify_all();
    return std::move(answer_);
}

void StateDesk::flush(std::unique_lock<std::mutex>& lock) {
    if (!writes_.words.at("pieces").empty()) {
        Packet writes = std::exchange(writes_, write_command());
        (void)exchange(lock, std::move(writes));
    }
}

void StateDesk::write(const StatePlace& place, std::span<const std::byte> bytes) {
    std::unique_lock lock(mutex_);
    ahead_.clear();
    writes_.words["pieces"].push_back({place.part, place.offset, bytes.size()});
    writes_.bytes.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (writes_.bytes.size() >= kMostWriteBytes) {
        flush(lock);
    }
}

void StateDesk::read(const StatePlace& place, std::span<std::byte> into, int64_t part_bytes) {
    std::unique_lock lock(mutex_);
    flush(lock);
    const int64_t size = std::ssize(into);
    const auto holds = [&](const Ahead& ahead) {
        return ahead.offset <= place.offset && place.offset + size <= ahead.offset + std::ssize(ahead.bytes);
    };
    Ahead* ahead = &ahead_[place.part];
    if (!holds(*ahead)) {
        const int64_t bytes = std::min(std::max(size, kReadBytes), part_bytes - place.offset);
        Packet found = exchange(
            lock, {.words = {{"do", "read"}, {"part", place.part}, {"offset", place.offset}, {"bytes", bytes}}});
        ahead = &ahead_[place.part];
        *ahead = {.offset = place.offset, .bytes = std::move(found.bytes)};
        if (!holds(*ahead)) {
            throw Error(
                cat("a worker was asked for ", bytes, " bytes of its state and gave ", ahead->bytes.size(), "."));
        }
    }
    std::memcpy(into.data(), ahead->bytes.data() + (place.offset - ahead->offset), into.size());
}

Packet StateDesk::tell(const Packet& words) {
    std::unique_lock lock(mutex_);
    flush(lock);
    return exchange(lock, words);
}

void StateDesk::end() {
    std::unique_lock lock(mutex_);
    flush(lock);
    (void)exchange(lock, {.words = {{"do", "end"}}});
    worker_.clear();
    ahead_.clear();
}

void StateDesk::abandon(int64_t session) {
    const std::lock_guard lock(mutex_);
    if (session == session_) {
        forget();
    }
}

Packet StateDesk::next(const std::string& worker, Packet answer) {
    std::unique_lock lock(mutex_);
    const auto has_command = [&] { return worker == worker_ && is_asked_ && !is_answered_; };
    if (has_command() && answer.words.value("done", int64_t{0}) == number_) {
        answer_ = std::move(answer);
        is_answered_ = true;
        changed_.notify_all();
        if (command_.words.at("do") == "end") {
            return {.words = {{"do", "idle"}}};
        }
    }
    if (worker_.empty()) {
        return {.words = {{"do", "end"}, {"number", 0}}};
    }
    return changed_.wait_for(lock, kPatience, has_command) ? command_ : Packet{.words = {{"do", "idle"}}};
}

}  // namespace accrue
