#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace accrue {

// How many bytes of replies may be on their way at a time: a large one for each of a thousand workers at once would be more than a
// machine has. One alone always has room.
class ReplyRoom {
public:
    // `has_room` is called when there is room again for somebody who got none, by any thread.
    ReplyRoom(int64_t bytes, std::function<void()> has_room);

    // To be kept as long as the reply is; none while there is no room. Must not outlive this.
    [[nodiscard]] std::shared_ptr<const void> take(int64_t bytes);

private:
    void give_back(int64_t bytes);

    const int64_t all_;
    const std::function<void()> has_room_;
    std::mutex mutex_;
    int64_t taken_ = 0;
    bool has_refused_ = false;
};

}  // namespace accrue
