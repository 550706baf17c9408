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

Arena::Arena(int64_t bytes) : capacity_(round_up(std::max<int64_t>(bytes, 1), kHugePage)), kept_(capacity_) {
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
    if (!is_dry() && place + wanted > kept_ && blocks_behind_++ == 0) {
        drop_gaps(0, kept_);
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
    const int64_t end = offset + found->second;
    in_use_ -= found->second;
    taken_.erase(found);
    if (blocks_behind_ > 0) {
        drop(offset, end);
        blocks_behind_ -= end > kept_ ? 1 : 0;
    }
}

void Arena::restart_high_water() {
    high_water_ = taken_.empty() ? 0 : taken_.rbegin()->first + taken_.rbegin()->second;
}

void Arena::keep(int64_t bytes) {
    if (is_dry()) {
        return;
    }
    kept_ = std::min(capacity_, round_up(bytes, kHugePage));
    blocks_behind_ = std::count_if(taken_.begin(), taken_.end(),
                                   [this](const auto& block) { return block.first + block.second > kept_; });
    drop_gaps(blocks_behind_ > 0 ? 0 : kept_, capacity_);
}

void Arena::drop_gaps(int64_t first, int64_t last) {
    for (const auto& [offset, length] : taken_) {
        drop(first, std::min(offset, last));
        first = std::max(first, offset + length);
    }
    drop(first, last);
}

// Pages that a neighbour shares stay.
void Arena::drop(int64_t first, int64_t last) {
    const int64_t start = round_up(first, kPage);
    const int64_t end = last / kPage * kPage;
    if (start < end) {
        madvise(base_ + start, static_cast<size_t>(end - start), MADV_DONTNEED);
    }
}

void Arena::touch(const LongWork& work) {
    constexpr int64_t kPiece = 16 * kHugePage;
    WorkCount count(work, kept_);
    work.run((kept_ + kPiece - 1) / kPiece, [&](int64_t item) {
        const int64_t first = item * kPiece;
        const int64_t end = std::min(first + kPiece, kept_);
        for (int64_t offset = first; offset < end; offset += kPage) {
            // Adds nothing, in one access: to read first would map a page of zeros, which the write replaces again.
            __atomic_fetch_or(reinterpret_cast<unsigned char*>(base_ + offset), 0, __ATOMIC_RELAXED);
        }
        count.add(end - first);
    });
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
