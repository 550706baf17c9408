#include "accrue/tensor/arena.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>

namespace accrue {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kPage = 4096;

int64_t round_up(int64_t bytes, int64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

}  // namespace

Arena::Arena() {
    // Below any mapping a process has and above the null page: a read or write there faults.
    base_ = reinterpret_cast<std::byte*>(kPage);
}

Arena::Arena(int64_t bytes) : capacity_(round_up(std::max<int64_t>(bytes, 1), kHugePage)) {
    // One huge page more than asked, so that the base can be aligned to one.
    void* memory = mmap(nullptr, static_cast<size_t>(capacity_ + kHugePage), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        throw Error(cat("cannot reserve ", bytes, " bytes of memory: ", std::strerror(errno),
                        ". Choose a smaller model or window.micro_batch_grains, or free memory."));
    }
    const auto address = reinterpret_cast<uintptr_t>(memory);
    const auto aligned = (address + kHugePage - 1) / kHugePage * kHugePage;
    base_ = reinterpret_cast<std::byte*>(aligned);
    mapping_ = memory;
    madvise(base_, static_cast<size_t>(capacity_), MADV_HUGEPAGE);
}

Arena::~Arena() {
    if (mapping_ != nullptr) {
        munmap(mapping_, static_cast<size_t>(capacity_ + kHugePage));
    }
}

Arena::Block Arena::take(int64_t bytes) {
    const int64_t wanted = round_up(std::max<int64_t>(bytes, 1), kAlignment);
    int64_t place = 0;
    for (const auto& [offset, length] : taken_) {
        if (offset - place >= wanted) {
            break;
        }
        place = offset + length;
    }
    if (capacity_ >= 0 && place + wanted > capacity_) {
        throw Error(cat("the plan reserved ", capacity_, " bytes, but ", wanted, " more were asked for with ", in_use_,
                        " in use. This is a fault of the planner: please report it with your run.toml."));
    }
    taken_.emplace(place, wanted);
    in_use_ += wanted;
    high_water_ = std::max(high_water_, place + wanted);
    Block block;
    block.arena_ = this;
    block.offset_ = place;
    block.bytes_ = bytes;
    return block;
}

void Arena::give_back(int64_t offset) {
    const auto found = taken_.find(offset);
    in_use_ -= found->second;
    taken_.erase(found);
}

void Arena::touch() {
    for (int64_t offset = 0; offset < capacity_; offset += kPage) {
        base_[offset] = std::byte{0};
    }
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
    return arena_->base_ + offset_;
}

}  // namespace accrue
