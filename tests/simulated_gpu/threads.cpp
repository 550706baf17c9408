#include "tests/simulated_gpu/threads.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <vector>

#include <sys/mman.h>

#include "accrue/base/random.h"

// What kernels read as threadIdx and so on (device_words.h): of the thread that runs.
extern "C" {
accrue::simulated::Extent threadIdx;
accrue::simulated::Extent blockIdx;
accrue::simulated::Extent blockDim;
accrue::simulated::Extent gridDim;
}

// Leaves the stack that is in use, whose top is stored, and goes on where another was left.
extern "C" void accrue_simulated_switch(void** left, void* entered);
asm(R"(
.text
.globl accrue_simulated_switch
.type accrue_simulated_switch, @function
accrue_simulated_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size accrue_simulated_switch, . - accrue_simulated_switch
)");

namespace accrue::simulated {
namespace {

constexpr size_t kStackBytes = 256 * 1024;
// From one stack to the next: not a power of two, or the tops of all would fall into the same few lines of the cache.
constexpr size_t kStacksApart = kStackBytes + 17 * 64;
constexpr size_t kMostThreads = 1024;
constexpr uint32_t kWarp = 32;

struct Copy {
    void* to;
    const void* from;
    int copied;
    int size;
};

struct Thread {
    uint32_t number = 0;
    void* top = nullptr;  // of its stack, where it was left
    bool has_ended = false;
    // It waits while this is still what it was.
    const uint64_t* watched = nullptr;
    uint64_t seen = 0;
    std::vector<Copy> open_copies;
    std::deque<std::vector<Copy>> copies;

    [[nodiscard]] bool waits() const { return watched != nullptr && *watched == seen; }
};

struct Warp {
    uint64_t turn = 0;
    uint32_t size = 0;
    uint32_t here = 0;
    uint32_t ended = 0;
    const char* instruction = nullptr;
    void* lanes[kWarp] = {};
};

// A block, one after another in the same memory.
class Block {
public:
    static Block& only() {
        static Block block;
        return block;
    }

    void run(uint32_t threads, uint32_t shared_bytes, const std::function<void()>& body, uint64_t seed);
    void wait_for_block();
    void with_warp(const char* instruction, void* mine, void (*act)(Lanes lanes));
    [[nodiscard]] Thread& running() { return *running_; }
    [[nodiscard]] std::byte* shared() { return shared_; }

private:
    Block() {
        stacks_ = static_cast<std::byte*>(
            mmap(nullptr, kMostThreads * kStacksApart, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        if (stacks_ == MAP_FAILED) {
            fail("no memory for stacks");
        }
    }

    void begin(Thread& thread, uint32_t number);
    void give_way(const uint64_t& watched);
    void end_thread();
    [[nodiscard]] Thread* next_to_run();
    void leave(void*& left);
    void release_if_all_are_here();
    static void enter();

    std::byte* stacks_;
    std::vector<Thread> threads_;
    std::vector<Warp> warps_;
    std::vector<uint32_t> order_;
    size_t place_ = 0;  // in the order, of the thread that runs
    alignas(128) std::byte shared_[256 * 1024] = {};
    const std::function<void()>* body_ = nullptr;
    Thread* running_ = nullptr;
    void* scheduler_ = nullptr;  // the top of its stack
    uint64_t barrier_ = 0;
    uint32_t at_barrier_ = 0;
    uint32_t ended_ = 0;
};

void Block::begin(Thread& thread, uint32_t number) {
    thread.number = number;
    thread.has_ended = false;
    thread.watched = nullptr;
    thread.open_copies.clear();
    thread.copies.clear();
    // As if it had been left at the beginning of enter(): six registers, then the address to return to, where a function finds
    // its stack as after a call.
    auto** top = reinterpret_cast<void**>(stacks_ + (number + 1) * kStacksApart) - 3;
    *--top = reinterpret_cast<void*>(&Block::enter);
    top -= 6;
    std::fill_n(top, 6, nullptr);
    thread.top = top;
}

void Block::enter() {
    (*only().body_)();
    only().end_thread();
}

void Block::run(uint32_t threads, uint32_t shared_bytes, const std::function<void()>& body, uint64_t seed) {
    if (threads > kMostThreads || shared_bytes > sizeof(shared_)) {
        fail("a block that no GPU has");
    }
    std::memset(shared_, 0xff, shared_bytes);
    body_ = &body;
    threads_.resize(threads);
    order_.resize(threads);
    std::iota(order_.begin(), order_.end(), 0U);
    if (seed != 0) {
        for (uint32_t i = threads; i > 1; --i) {
            std::swap(order_[i - 1], order_[mix(seed, i) % i]);
        }
    }
    warps_.assign((threads + kWarp - 1) / kWarp, Warp());
    for (uint32_t i = 0; i < threads; ++i) {
        begin(threads_[i], i);
        ++warps_[i / kWarp].size;
    }
    ended_ = 0;
    at_barrier_ = 0;
    place_ = threads - 1;
    leave(scheduler_);
}

// The next one in the order that does not wait.
Thread* Block::next_to_run() {
    for (size_t i = 0; i < threads_.size(); ++i) {
        place_ = place_ + 1 == threads_.size() ? 0 : place_ + 1;
        Thread& thread = threads_[order_[place_]];
        if (!thread.has_ended && !thread.waits()) {
            return &thread;
        }
    }
    return nullptr;
}

// For the next thread, or for whoever runs the block when all have ended.
void Block::leave(void*& left) {
    Thread* const next = next_to_run();
    if (next == nullptr && ended_ < threads_.size()) {
        fail("threads of a block wait for each other");
    }
    if (next == nullptr) {
        accrue_simulated_switch(&left, scheduler_);
        return;
    }
    next->watched = nullptr;
    running_ = next;
    threadIdx = {.x = next->number, .y = 0, .z = 0};
    accrue_simulated_switch(&left, next->top);
}

void Block::give_way(const uint64_t& watched) {
    Thread& thread = *running_;
    thread.watched = &watched;
    thread.seen = watched;
    leave(thread.top);
}

void Block::release_if_all_are_here() {
    if (at_barrier_ > 0 && at_barrier_ + ended_ == threads_.size()) {
        at_barrier_ = 0;
        ++barrier_;
    }
}

void Block::end_thread() {
    Thread& thread = *running_;
    Warp& warp = warps_[thread.number / kWarp];
    if (warp.here > 0) {
        fail("a lane ended while others of its warp wait for it in", warp.instruction);
    }
    if (!thread.open_copies.empty() ||
        std::ranges::any_of(thread.copies, [](const auto& group) { return !group.empty(); })) {
        fail("a thread ended before its copies to shared memory");
    }
    ++warp.ended;
    ++ended_;
    thread.has_ended = true;
    release_if_all_are_here();
    leave(thread.top);
}

void Block::wait_for_block() {
    ++at_barrier_;
    const uint64_t now = barrier_;
    release_if_all_are_here();
    if (barrier_ == now) {
        give_way(barrier_);
    }
}

void Block::with_warp(const char* instruction, void* mine, void (*act)(Lanes lanes)) {
    Warp& warp = warps_[running_->number / kWarp];
    if (warp.ended > 0 || warp.size != kWarp) {
        fail("not all lanes of a warp are there for", instruction);
    }
    if (warp.here > 0 && warp.instruction != instruction && std::strcmp(warp.instruction, instruction) != 0) {
        fail("lanes of a warp came to different instructions, one of them", instruction);
    }
    warp.instruction = instruction;
    warp.lanes[running_->number % kWarp] = mine;
    if (++warp.here < kWarp) {
        give_way(warp.turn);
        return;
    }
    act(warp.lanes);
    warp.here = 0;
    ++warp.turn;
}

uint64_t runs = 0;

void arrive(const std::vector<Copy>& copies) {
    for (const Copy& copy : copies) {
        std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.copied));
        std::memset(static_cast<std::byte*>(copy.to) + copy.copied, 0, static_cast<size_t>(copy.size - copy.copied));
    }
}

}  // namespace

void fail(const char* what, const char* which) {
    std::fprintf(stderr, "simulated GPU: %s %s (block %u, %u, %u, thread %u)\n", what, which, blockIdx.x, blockIdx.y,
                 blockIdx.z, threadIdx.x);
    std::abort();
}

void run_blocks(Extent blocks, uint32_t threads, uint32_t shared_bytes, uint64_t order,
                const std::function<void()>& body) {
    blockDim = {.x = threads, .y = 1, .z = 1};
    gridDim = blocks;
    const uint64_t count = uint64_t{blocks.x} * blocks.y * blocks.z;
    const uint64_t seed = order == 0 ? 0 : mix(order, ++runs) | 1;
    for (uint64_t turn = 0; turn < count; ++turn) {
        // Every number once: ascending from some block on, or descending.
        const uint64_t moved = seed == 0 ? turn : (turn + seed / 2) % count;
        const uint64_t i = seed % 4 == 3 ? count - 1 - moved : moved;
        blockIdx = {.x = static_cast<uint32_t>(i % blocks.x),
                    .y = static_cast<uint32_t>(i / blocks.x % blocks.y),
                    .z = static_cast<uint32_t>(i / blocks.x / blocks.y)};
        Block::only().run(threads, shared_bytes, body, seed == 0 ? 0 : mix(seed, i) | 1);
    }
}

void wait_for_block() {
    Block::only().wait_for_block();
}

std::byte* shared_memory() {
    return Block::only().shared();
}

uint32_t lane() {
    return threadIdx.x % kWarp;
}

void with_warp(const char* instruction, void* mine, void (*act)(Lanes lanes)) {
    Block::only().with_warp(instruction, mine, act);
}

void copy_beside(void* to, const void* from, int copied, int size) {
    Block::only().running().open_copies.push_back({.to = to, .from = from, .copied = copied, .size = size});
}

void close_copies() {
    Thread& thread = Block::only().running();
    thread.copies.push_back(std::move(thread.open_copies));
    thread.open_copies.clear();
}

void wait_for_copies(int open_groups) {
    auto& copies = Block::only().running().copies;
    while (std::ssize(copies) > open_groups) {
        arrive(copies.front());
        copies.pop_front();
    }
}

}  // namespace accrue::simulated
