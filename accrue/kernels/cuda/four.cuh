#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace accrue::cuda {

// Four neighbouring elements, which belong to one thread: moved at once where they are aligned and all there, else one by
// one. What is done with them is the same either way, so that alignment changes no bit.
template <class T>
struct Four {
    T at[4];
};

// Whether somebody reads the memory again while it may still be in a cache.
enum class Reuse { soon, none };

template <int bytes>
struct WordsOfFour {
    using Word = uint4;
};
template <>
struct WordsOfFour<8> {
    using Word = uint2;
};
template <>
struct WordsOfFour<4> {
    using Word = uint32_t;
};

template <class T>
[[nodiscard]] bool fits_four(const T* first) {
    return reinterpret_cast<uintptr_t>(first) % std::min<size_t>(sizeof(Four<T>), 16) == 0;
}
// Also of every further row.
template <class T>
[[nodiscard]] bool fits_four(const T* first, int64_t stride) {
    return fits_four(first) && stride % 4 == 0;
}

template <Reuse reuse, class T>
__device__ Four<T> load_four(const T* from) {
    using Word = typename WordsOfFour<sizeof(Four<T>)>::Word;
    constexpr int kWords = sizeof(Four<T>) / sizeof(Word);
    Word words[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
        const Word* word = reinterpret_cast<const Word*>(from) + i;
        words[i] = reuse == Reuse::none ? __ldcs(word) : *word;
    }
    Four<T> result;
    memcpy(&result, words, sizeof(result));
    return result;
}

// The first `left` of them, the others 0.
template <Reuse reuse, class T>
__device__ Four<T> load_four(const T* from, int64_t left, bool is_aligned) {
    if (is_aligned && left >= 4) {
        return load_four<reuse>(from);
    }
    Four<T> result{};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        if (e < left) {
            result.at[e] = from[e];
        }
    }
    return result;
}

template <Reuse reuse, class T>
__device__ void store_four(T* to, const Four<T>& values) {
    using Word = typename WordsOfFour<sizeof(Four<T>)>::Word;
    constexpr int kWords = sizeof(Four<T>) / sizeof(Word);
    Word words[kWords];
    memcpy(words, &values, sizeof(values));
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
        Word* word = reinterpret_cast<Word*>(to) + i;
        if constexpr (reuse == Reuse::none) {
            __stcs(word, words[i]);
        } else {
            *word = words[i];
        }
    }
}

template <Reuse reuse, class T>
__device__ void store_four(T* to, const Four<T>& values, int64_t left, bool is_aligned) {
    if (is_aligned && left >= 4) {
        store_four<reuse>(to, values);
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        if (e < left) {
            to[e] = values.at[e];
        }
    }
}

// How rows are cut into blocks whose threads have four columns each; block b has piece b % pieces of row b / pieces.
struct RowPieces {
    uint32_t threads = 32;
    int64_t pieces = 0;
};
[[nodiscard]] inline RowPieces row_pieces(int64_t columns) {
    const int64_t threads = std::clamp<int64_t>((columns + 127) / 128 * 32, 32, 256);
    return {.threads = static_cast<uint32_t>(threads), .pieces = (columns + 4 * threads - 1) / (4 * threads)};
}

// Blocks of 256 threads with four elements each.
inline constexpr int64_t kFoursThreads = 256;
[[nodiscard]] inline dim3 blocks_of_fours(int64_t elements) {
    return dim3(static_cast<uint32_t>((elements + 4 * kFoursThreads - 1) / (4 * kFoursThreads)));
}

// Which of `count` parts a block belongs to, where part i has the blocks from firsts[i] to firsts[i + 1]. All threads of the
// block call it, once.
__device__ inline int64_t part_of_block(const int64_t* firsts, int64_t count, int64_t block) {
    __shared__ int64_t found;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
        if (firsts[i] <= block && block < firsts[i + 1]) {
            found = i;
        }
    }
    __syncthreads();
    return found;
}

}  // namespace accrue::cuda
