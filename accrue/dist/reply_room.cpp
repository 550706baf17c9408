#include "accrue/dist/reply_room.h"

#include <utility>

namespace accrue {

ReplyRoom::ReplyRoom(int64_t bytes, std::function<void()> has_room) : all_(bytes), has_room_(std::move(has_room)) {}

std::shared_ptr<const void> ReplyRoom::take(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (taken_ > 0 && bytes > all_ - taken_) {
        has_refused_ = true;
        return nullptr;
    }
    taken_ += bytes;
    return {this, [this, bytes](const void* /*room*/) { give_back(bytes); }};
}

void ReplyRoom::give_back(int64_t bytes) {
    bool tells = false;
    {
        const std::lock_guard lock(mutex_);
        taken_ -= bytes;
        tells = std::exchange(has_refused_, false);
    }
    if (tells) {
        has_room_();
    }
}

}  // namespace accrue
