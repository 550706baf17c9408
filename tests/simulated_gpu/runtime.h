#pragma once

#include <cstdint>
#include <functional>

#include <cuda_runtime_api.h>

// The CUDA runtime as the program uses it, on a GPU that does not exist. What is put on a stream happens when somebody waits
// for the stream, not before: who forgets to wait reads old bytes.
namespace accrue::simulated {

// Puts work on a stream, or into the graph that it records.
void enqueue(cudaStream_t stream, std::function<void()> work);

// What a call returns that finds nothing to complain about: success, unless the GPU is lost.
[[nodiscard]] cudaError_t answer();

// What it is like, from the environment, for tests:
//   ACCRUE_SIMULATED_GPU=architecture=86,memory_mib=2048,order=7,lost_after=100
struct Properties {
    int count = 1;  // GPUs that there are
    int architecture = 90;
    int driver = 13000;         // the CUDA version that the driver knows; 0 = no driver
    int64_t memory_mib = 8192;  // of which a process takes 520 when it begins
    int64_t others_mib = 0;     // that other processes have
    int64_t taken_mib = 0;      // that another process takes just before this one takes its first piece
    uint64_t order = 0;         // of threads and blocks; also what times of products are made from
    int64_t lost_after = -1;    // kernels, then every call fails
    int64_t killed_after = -1;  // kernels, then this process ends as by kill -9
    int has_code = 1;           // 0: the program was built for other GPUs
    int report = 0;             // 1: says at the end what it did
    int nccl = 1;               // 0: NCCL is too old
    int nccl_damage = 0;        // 1: the first sums that NCCL adds up are damaged on their way to the first member
};
[[nodiscard]] const Properties& properties();

// As long as a stream is held, it is not done, whoever asks.
void hold(cudaStream_t stream);
void release(cudaStream_t stream);

// Of threads and blocks on streams that are made from now on; 0 = ascending.
void set_order(uint64_t seed);

}  // namespace accrue::simulated
