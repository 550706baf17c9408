#include "accrue/kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accrue/kernels/cpu/moving.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <hwy/cache_control.h>

#include "accrue/kernels/cpu/dropout-inl.h"
#include "accrue/kernels/cpu/elementwise.h"
#include "accrue/kernels/cpu/lanes-inl.h"
#include "accrue/kernels/cpu/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::cpu::HWY_NAMESPACE {

template <class T>
void cast_piece(View<const float> input, const Dropout& dropout, View<T> output, int64_t row, int64_t first,
                int64_t count) {
    const float* from = input.row(row) + first;
    T* to = output.row(row) + first;
    if (dropout.probability == 0) {
        for_lanes(count, [&](int64_t i, int64_t left) HWY_ATTR { store(load(from + i, left), to + i, left); });
        return;
    }
    const RowDropout row_dropout(dropout, row);
    for_lanes(count, [&](int64_t i, int64_t left) HWY_ATTR {
        store(row_dropout.apply(load(from + i, left), static_cast<uint64_t>(first + i)), to + i, left);
    });
}

void cast(Pool& pool, View<const float> input, const Dropout& dropout, AnyView output) {
    with_type(output, [&](auto typed) HWY_ATTR {
        for_pieces(pool, output.rows, output.columns, [&](int64_t row, int64_t first, int64_t count) HWY_ATTR {
            cast_piece(input, dropout, typed, row, first, count);
        });
    });
}

// Clears memory whose lines are neither read first nor kept in the caches.
void stream_zero(std::byte* memory, size_t bytes) {
    constexpr size_t kLineBytes = 64;
    const hn::ScalableTag<uint8_t> d;
    const size_t before = std::min(bytes, -reinterpret_cast<uintptr_t>(memory) % kLineBytes);
    const size_t end = bytes - (bytes - before) % kLineBytes;
    std::memset(memory, 0, before);
    for (size_t i = before; i < end; i += hn::Lanes(d)) {
        hn::Stream(hn::Zero(d), d, reinterpret_cast<uint8_t*>(memory + i));
    }
    std::memset(memory + end, 0, bytes - end);
    hwy::FlushStream();
}

}  // namespace accrue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace accrue::cpu {
namespace {

// Bytes that one thread adds or clears at a time.
constexpr int64_t kPieceBytes = int64_t{1} << 20;

// Memory of this size is out of the caches by the time it is read again: a window's sums, moments, weights.
constexpr size_t kStreamedBytes = size_t{32} << 20;

template <class Body>
void for_bytes(Pool& pool, size_t bytes, const Body& body) {
    const auto count = static_cast<int64_t>(bytes);
    pool.run((count + kPieceBytes - 1) / kPieceBytes, [&](int64_t item, int) {
        const int64_t first = item * kPieceBytes;
        body(static_cast<size_t>(first), static_cast<size_t>(std::min(kPieceBytes, count - first)));
    });
}

}  // namespace

void cast(const Context& context, View<const float> input, const Dropout& dropout, AnyView output) {
    pick(context.set, N_SCALAR::cast, N_AVX2::cast, N_AVX3::cast)(context.pool, input, dropout, output);
}

void fill_zero(const Context& context, std::span<std::byte> memory) {
    const auto stream_zero = pick(context.set, N_SCALAR::stream_zero, N_AVX2::stream_zero, N_AVX3::stream_zero);
    for_bytes(context.pool, memory.size(), [&](size_t first, size_t count) {
        if (memory.size() >= kStreamedBytes) {
            stream_zero(memory.data() + first, count);
        } else {
            std::memset(memory.data() + first, 0, count);
        }
    });
}

void add_sums(const Context& context, View<const int64_t> others, View<int64_t> sums) {
    for_bytes(context.pool, static_cast<size_t>(sums.columns) * sizeof(int64_t), [&](size_t first, size_t count) {
        const size_t begin = first / sizeof(int64_t);
        for (size_t i = begin; i < begin + count / sizeof(int64_t); ++i) {
            // Unsigned, so that it wraps.
            sums.data[i] =
                static_cast<int64_t>(static_cast<uint64_t>(sums.data[i]) + static_cast<uint64_t>(others.data[i]));
        }
    });
}

}  // namespace accrue::cpu
#endif
