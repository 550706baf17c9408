// The conformance table keeps its matrices in ordinary vectors. In this program all that is allocated lies in memory which
// processor and GPU both see under the same addresses, so that the table runs on a GPU as it is. Each block has a margin on
// either side, which nobody may write to.
#include "tests/gpu/shared_heap.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include <cuda_runtime_api.h>
#include <sys/mman.h>

namespace {

constexpr size_t kHeapBytes = size_t{3} << 30;
constexpr size_t kMargin = 64;
constexpr int kMarginByte = 0xa5;

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "shared heap: %s\n", what);
    std::abort();
}

// What stands in front of a block, within its first margin.
struct Header {
    size_t bytes;
    size_t size_class;
    Header* next;
};
static_assert(sizeof(Header) < kMargin);

class Heap {
public:
    void* take(size_t bytes) {
        const std::lock_guard lock(mutex_);
        size_t size_class = 8;
        while ((size_t{1} << size_class) < bytes + 2 * kMargin) {
            ++size_class;
        }
        Header* header = free_[size_class];
        if (header != nullptr) {
            free_[size_class] = header->next;
        } else {
            header = reinterpret_cast<Header*>(grow(size_t{1} << size_class));
        }
        *header = {.bytes = bytes, .size_class = size_class, .next = nullptr};
        auto* const begin = reinterpret_cast<unsigned char*>(header);
        std::memset(begin + sizeof(Header), kMarginByte, kMargin - sizeof(Header));
        std::memset(begin + kMargin + bytes, kMarginByte, kMargin);
        return begin + kMargin;
    }

    void give_back(void* block) {
        if (block == nullptr) {
            return;
        }
        const std::lock_guard lock(mutex_);
        auto* const begin = static_cast<unsigned char*>(block) - kMargin;
        auto* const header = reinterpret_cast<Header*>(begin);
        for (size_t i = sizeof(Header); i < kMargin; ++i) {
            check(begin[i]);
        }
        for (size_t i = 0; i < kMargin; ++i) {
            check(begin[kMargin + header->bytes + i]);
        }
        header->next = free_[header->size_class];
        free_[header->size_class] = header;
    }

    // Without a GPU it is a heap like any other, and the tests say why they are skipped.
    void share() {
        const std::lock_guard lock(mutex_);
        if (!is_shared_ &&
            cudaHostRegister(memory_, kHeapBytes, cudaHostRegisterPortable | cudaHostRegisterMapped) != cudaSuccess) {
            cudaGetLastError();
        }
        is_shared_ = true;
    }

private:
    static void check(unsigned char byte) {
        if (byte != kMarginByte) {
            fail("somebody wrote beside a block");
        }
    }

    unsigned char* grow(size_t bytes) {
        if (memory_ == nullptr) {
            void* const all = mmap(nullptr, kHeapBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (all == MAP_FAILED) {
                fail("no memory");
            }
            memory_ = static_cast<unsigned char*>(all);
        }
        if (used_ + bytes > kHeapBytes) {
            fail("it is full");
        }
        used_ += bytes;
        return memory_ + used_ - bytes;
    }

    std::mutex mutex_;
    unsigned char* memory_ = nullptr;
    size_t used_ = 0;
    bool is_shared_ = false;
    std::array<Header*, 64> free_{};
};

// Never destroyed: others give back later.
Heap& heap() {
    alignas(Heap) static std::array<std::byte, sizeof(Heap)> place;
    static Heap* const made = new (place.data()) Heap;
    return *made;
}

}  // namespace

void accrue::conformance::share_heap() {
    heap().share();
}

void* operator new(size_t bytes) {
    return heap().take(bytes);
}
void operator delete(void* block) noexcept {
    heap().give_back(block);
}
void operator delete(void* block, size_t /*bytes*/) noexcept {
    heap().give_back(block);
}
