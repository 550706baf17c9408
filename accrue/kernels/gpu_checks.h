#pragma once

#include <cstdint>
#include <span>

namespace accrue {

// Integers in a GPU's memory, checked there: for exchanges between workers, which must not bring all of them to the host.

// Into so many numbers.
inline constexpr int64_t kGpuCheckParts = 256;
// Puts it on a stream of the thread's present GPU (a cudaStream_t): the parts, kGpuCheckParts numbers in its memory, then add up to
// the sum of values[i] * factor(seed, first + i) modulo 2^64, as linear_check() (dist) says. Returns at once.
void enqueue_gpu_check(std::span<const int64_t> values, int64_t first, uint64_t seed, uint64_t* parts, void* stream);

}  // namespace accrue
