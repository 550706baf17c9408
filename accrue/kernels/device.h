#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "accrue/base/pool.h"
#include "accrue/kernels/device_kind.h"
#include "accrue/kernels/kernels.h"
#include "accrue/kernels/workspace.h"

namespace accrue {

// Which device a run computes on.
struct DeviceChoice {
    DeviceName name;
    // cpu: the best instruction set there is, or at most this one ("avx2", "avx512", "avx512-bf16", "amx"); an error names
    // what the processor lacks. "" = the best.
    std::string instruction_set = {};
    // cuda: what comes again is replayed as a graph, or launched piece by piece, to see that this changes no bit.
    enum class Graphs { replayed, off };
    Graphs graphs = Graphs::replayed;
};

// Memory of the device, for its arena. With ACCRUE_TEST_GUARDED_MEMORY set, memory that nobody but the device can read:
// for tests.
[[nodiscard]] std::unique_ptr<Backing> make_backing(const DeviceChoice& device, int64_t bytes);
// The piece of an arena that lies in the host's memory, for the device to read and write as its own; nothing for 0 bytes.
// Takes all of it from the system, and counts bytes.
[[nodiscard]] std::unique_ptr<Backing> make_host_part(const DeviceChoice& device, int64_t bytes,
                                                      const LongWork& work = {});
// The device itself. The pool and the arena must outlive it.
[[nodiscard]] std::unique_ptr<Kernels> make_kernels(const DeviceChoice& device, Pool& pool, Arena& arena);
// What it would take for itself, with so many threads.
[[nodiscard]] std::unique_ptr<Workspace> make_workspace(const DeviceChoice& device, int threads);

// Plain loops with sums in double: the specification.
[[nodiscard]] std::unique_ptr<Kernels> make_reference_kernels(Arena& arena);
// Threads and vector instructions.
[[nodiscard]] std::unique_ptr<Kernels> make_cpu_kernels(Pool& pool, Arena& arena,
                                                        const std::string& instruction_set = "");
[[nodiscard]] std::unique_ptr<Workspace> make_cpu_workspace(int threads);

// An NVIDIA GPU, by its number; an error that says what to do in a program that was built without CUDA.
[[nodiscard]] std::unique_ptr<Backing> make_cuda_backing(int gpu, int64_t bytes);
// Of the host's memory, for that GPU.
[[nodiscard]] std::unique_ptr<Backing> make_cuda_host_backing(int gpu, int64_t bytes, const LongWork& work);
[[nodiscard]] std::unique_ptr<Kernels> make_cuda_kernels(int gpu, Arena& arena,
                                                         DeviceChoice::Graphs graphs = DeviceChoice::Graphs::replayed);
// Needs neither that GPU nor CUDA; without, it is what the kind takes that takes most.
[[nodiscard]] std::unique_ptr<Workspace> make_cuda_workspace(int gpu);

}  // namespace accrue
