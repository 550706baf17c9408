#pragma once

#include "accrue/kernels/cuda/tape.h"
#include "accrue/kernels/cuda/vectors.cuh"

// A run of columns that is normalised by itself belongs to a team of threads: one warp, or a whole block. A thread holds
// groups of four neighbouring columns in registers. Which columns are whose follows from the width of a run alone, so that
// a run has the same bits wherever it lies, and whether it is read in words or one by one. Runs that are too wide for
// registers have kernels of their own, which read them several times.
namespace accrue::cuda::norms {

inline constexpr int kGroup = 4;          // neighbouring columns of a thread
inline constexpr int kWarpColumns = 128;  // a group for each lane
inline constexpr int64_t kWidest = 8192;  // that fits into registers
inline constexpr int kWideThreads = 1024;
inline constexpr int kMostWarps = 32;

enum class Norm { rms, layer };

// How runs of one width are shared out.
struct TeamShape {
    int64_t groups = 1;  // of each thread, at most
    int64_t warps = 1;   // of a team
    int64_t teams = 1;   // of a block; several only where a team is a warp

    [[nodiscard]] uint32_t threads() const { return static_cast<uint32_t>(32 * warps * teams); }
};

[[nodiscard]] inline int64_t divided_up(int64_t count, int64_t by) {
    return (count + by - 1) / by;
}

// The threads that work on one run.
struct Team {
    int warps;
    int threads;
    int number;  // in its block
    int place;   // of this thread in the team
    int count;   // teams of the block

    __device__ explicit Team(int64_t warps_)
        : warps(static_cast<int>(warps_)),
          threads(32 * warps),
          number(static_cast<int>(threadIdx.x) / threads),
          place(static_cast<int>(threadIdx.x) % threads),
          count(static_cast<int>(blockDim.x) / threads) {}
    // The first column of this thread's j-th group.
    [[nodiscard]] __device__ int column(int j) const { return (j * threads + place) * kGroup; }
};

// A thread's group of a run that begins at `begin`; `left` columns of the run are there from `column` on. Reads in words
// whatever is there, so that no load waits for a branch: of a group behind the end, the first group instead of nothing.
template <class T>
__device__ inline void load_group(const Source& source, int64_t begin, int column, int left, float (&values)[kGroup]) {
    if constexpr (kIsAny<T>) {
        load<AnyType>(source, begin + column, left, values);
    } else {
        load_vector(static_cast<const T*>(source.data) + begin + (left > 0 ? column : 0), values);
    }
}
__device__ inline void keep_if(bool there, float (&values)[kGroup]) {
#pragma unroll
    for (float& value : values) {
        value = there ? value : 0.0F;
    }
}

// The sum over a team, for all its threads in the same order: lanes, then warps. `of_warps` is used by one sum at a time.
__device__ inline float team_sum(float value, int warps, float* of_warps) {
    value = warp_sum(value);
    if (warps == 1) {
        return value;
    }
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = value;
    }
    __syncthreads();
    float sum = 0;
    for (int warp = 0; warp < warps; ++warp) {
        sum += of_warps[warp];
    }
    return sum;
}

// A run of columns of a row.
struct Run {
    int64_t row;
    int64_t run;
};

// Run number `item`, where each row has so many.
__device__ inline Run run_of(uint32_t item, int64_t runs) {
    const int64_t row = runs == 1 ? item : item / static_cast<uint32_t>(runs);
    return {.row = row, .run = item - row * runs};
}

// Whether each run of such a view begins and ends with a whole group.
[[nodiscard]] inline bool has_groups(const AnyConstView& view, int64_t width) {
    return view.empty() || (width % kGroup == 0 && has_vectors(view, kGroup));
}

}  // namespace accrue::cuda::norms
