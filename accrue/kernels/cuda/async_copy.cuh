#pragma once

#include <cstdint>

#include <cuda_runtime.h>

// Copies from device memory to shared memory that run beside the thread that asked for them, and are seen by it after it
// has waited. Copies belong to groups, which end in their order.
namespace accrue::cuda {

// 16 bytes, aligned on both sides.
__device__ inline void copy_async(void* shared, const void* from) {
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// What was asked for since the last end of a group is one.
__device__ inline void end_copy_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Until at most so many of the latest groups are unfinished.
template <int groups>
__device__ inline void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}

}  // namespace accrue::cuda
