#pragma once

#include <cstdint>
#include <functional>

#include <cuda_runtime_api.h>

// The CUDA runtime as the program uses it, on a GPU that does not exist. What is put on a stream happens when somebody waits
// for the stream, not before: who forgets to wait reads old bytes.
namespace accrue::simulated {

// Puts work on a stream, or into the graph that it records.
void enqueue(cudaStream_t stream, std::function<void()> work);

// What it is like, from the environment, for tests:
//   ACCRUE_SIMULATED_GPU=architecture=86,memory_mib=2048,order=7,lost_after=100
struct Properties {
    int count = 1;              // GPUs that there are
    int architecture = 90;
    int driver = 13000;         // the CUDA version that the driver knows; 0 = no driver
    int64_t memory_mib = 8192;
    uint64_t order = 0;         // of threads and blocks
    int64_t lost_after = -1;    // kernels, then every call fails
    int has_code = 1;           // 0: the program has none for this GPU
};
[[nodiscard]] const Properties& properties();

}  // namespace accrue::simulated
