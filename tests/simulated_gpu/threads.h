#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

// The threads of a GPU's blocks on one processor thread: each has a stack of its own, and gives way where it waits for others.
// What a GPU does at the same time happens here one after another, in an order that a seed chooses: a missing barrier shows as
// different bits. What a GPU would let pass, or hang on, ends the program with a sentence: threads that wait for each other,
// lanes of a warp that do not come to the same instruction.
namespace accrue::simulated {

struct Extent {
    uint32_t x = 1;
    uint32_t y = 1;
    uint32_t z = 1;
};

// Runs `body` once for each thread of each block. `shared_bytes`: of dynamic shared memory, full of NaN when a block begins.
// `order`: a seed for the order of blocks, and of the threads of a block, another one in every run; 0 = ascending.
void run_blocks(Extent blocks, uint32_t threads, uint32_t shared_bytes, uint64_t order,
                const std::function<void()>& body);

// The rest is called from inside a body.

void wait_for_block();
[[nodiscard]] std::byte* shared_memory();
[[nodiscard]] uint32_t lane();

// Waits until all lanes of the warp are here with the same instruction; then `act` has what each of them brought.
using Lanes = void* const (&)[32];
void with_warp(const char* instruction, void* mine, void (*act)(Lanes lanes));

// Copies that run beside the thread: nothing of them is there until it waits, and all of it only behind the next barrier.
void copy_beside(void* to, const void* from, int copied, int size);
void close_copies();
void wait_for_copies(int open_groups);

[[noreturn]] void fail(const char* what, const char* which = "");

}  // namespace accrue::simulated
