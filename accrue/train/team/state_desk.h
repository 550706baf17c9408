#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "accrue/train/team/packet.h"
#include "accrue/train/team/state_parts.h"

namespace accrue {

// Where whoever leads a run reads and writes the state that a worker holds: the worker asks what to do next, again and again
// (serve_state.h), and the desk answers. Bytes that are written are collected, and bytes around those that are read come along,
// so that small pieces cost few messages. Writing and reading may be done by several threads.
class StateDesk {
public:
    // Throws what ends the session, because nobody serves any more; asked several times a second while somebody waits.
    using Watch = std::function<void()>;

    // One worker's session. Whatever an earlier one left is gone.
    void begin(std::string worker, Watch watch);
    void write(const StatePlace& place, std::span<const std::byte> bytes);
    void read(const StatePlace& place, std::span<std::byte> into, int64_t part_bytes);
    // Says something to the worker and returns what it answers; what was written is there before.
    [[nodiscard]] Packet tell(const Packet& words);
    // Everything written is there, and the worker goes on with its task.
    void end();
    // The worker of that session is gone: whoever waits for it, or comes, gets a RosterChanged. Nothing where another one has begun.
    void abandon(int64_t session);
    // The present one, or the last; each has its number.
    [[nodiscard]] int64_t session() const;
    [[nodiscard]] bool is_open() const;

    // A worker has done what it was told ("done": the number of it; the first time nothing) and asks what is next; "idle" = ask
    // again, "end" = nobody wants anything.
    [[nodiscard]] Packet next(const std::string& worker, Packet answer);

private:
    [[nodiscard]] Packet exchange(std::unique_lock<std::mutex>& lock, Packet command);
    void flush(std::unique_lock<std::mutex>& lock);
    void forget();

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::string worker_;  // empty: no session
    Watch watch_;
    int64_t session_ = 0;
    int64_t number_ = 0;        // of the command: an answer names it, because either may come twice
    bool is_asked_ = false;     // a command waits for the worker's answer
    bool is_answered_ = false;  // and that is there
    bool is_busy_ = false;      // somebody exchanges
    Packet command_;
    Packet answer_;
    Packet writes_;  // that are not sent yet
    // What was read last of each part, and where it begins.
    struct Ahead {
        int64_t offset = 0;
        std::string bytes;
    };
    std::map<int64_t, Ahead> ahead_;
};

}  // namespace accrue
