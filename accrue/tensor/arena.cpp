#include "accrue/tensor/arena.h"

#include <algorithm>

#include "accrue/base/error.h"

namespace accrue {

Arena::Arena(std::unique_ptr<Backing> backing, std::unique_ptr<Backing> on_host)
    : backing_(std::move(backing)),
      host_(on_host ? std::make_unique<Arena>(std::move(on_host)) : nullptr),
      kept_(backing_->capacity().value_or(0)) {}

Arena& Arena::on_host() {
    if (!host_) {
        throw Error(
            "state was to lie in the host's memory, but none was taken for it. This is a fault of the program: please "
            "report it with your run.toml.");
    }
    return *host_;
}

bool Arena::holds(const void* place) const {
    const auto* const byte = static_cast<const std::byte*>(place);
    return !is_dry() && byte >= backing_->base() && byte < backing_->base() + *backing_->capacity();
}

void Arena::open() {
    backing_->open();
    if (host_) {
        host_->open();
    }
}

void Arena::close() {
    if (host_) {
        host_->close();
    }
    backing_->close();
}

Arena::Block Arena::take(int64_t bytes) {
    const Placement::Extent extent = placement_.find(bytes);
    const std::optional<int64_t> capacity = backing_->capacity();
    if (capacity && extent.last > *capacity) {
        throw Error(cat("the plan reserved ", *capacity, " bytes, but ", extent.last - extent.first,
                        " more were asked for with ", bytes_in_use(),
                        " in use. This is a fault of the planner: please report it with your run.toml."));
    }
    if (capacity && extent.last > kept_ && blocks_behind_++ == 0) {
        drop_gaps(0, kept_);
    }
    placement_.take(extent);
    Block block;
    block.arena_ = this;
    block.offset_ = extent.first;
    block.bytes_ = bytes;
    return block;
}

void Arena::give_back(int64_t offset) {
    const auto [first, last] = placement_.give_back(offset);
    if (blocks_behind_ > 0) {
        backing_->give_back(first, last);
        blocks_behind_ -= last > kept_ ? 1 : 0;
    }
}

void Arena::keep(int64_t bytes) {
    constexpr int64_t kHugePage = int64_t{2} << 20;
    if (is_dry()) {
        return;
    }
    const int64_t capacity = *backing_->capacity();
    kept_ = std::min(capacity, (bytes + kHugePage - 1) / kHugePage * kHugePage);
    blocks_behind_ = placement_.blocks_behind(kept_);
    drop_gaps(blocks_behind_ > 0 ? 0 : kept_, capacity);
}

void Arena::drop_gaps(int64_t first, int64_t last) {
    placement_.for_gaps({first, last},
                        [this](const Placement::Extent& gap) { backing_->give_back(gap.first, gap.last); });
}

Arena::Block& Arena::Block::operator=(Block&& other) noexcept {
    if (this != &other) {
        release();
        arena_ = std::exchange(other.arena_, nullptr);
        offset_ = other.offset_;
        bytes_ = other.bytes_;
    }
    return *this;
}

void Arena::Block::release() {
    if (arena_ != nullptr) {
        std::exchange(arena_, nullptr)->give_back(offset_);
    }
}

std::byte* Arena::Block::data() const {
    return arena_->backing_->base() + offset_;
}

}  // namespace accrue
