#include <algorithm>

#include "accrue/kernels/cuda/column_sums.h"
#include "accrue/kernels/cuda/column_totals.h"
#include "accrue/kernels/cuda/partial_sums.cuh"
#include "accrue/kernels/cuda/vectors.cuh"

namespace accrue::cuda {

static_assert(rows_of_partial_sum(1) == rows_per_partial_sum(1) &&
              rows_of_partial_sum(511) == rows_per_partial_sum(511));
static_assert(rows_of_partial_sum(512) == rows_per_partial_sum(512) &&
              rows_of_partial_sum(4095) == rows_per_partial_sum(4095));
static_assert(rows_of_partial_sum(4096) == rows_per_partial_sum(4096) &&
              rows_of_partial_sum(int64_t{1} << 40) == rows_per_partial_sum(int64_t{1} << 40));

namespace {

constexpr int kColumnsPerThread = 8;
constexpr int kRowsAtOnce = 4;
constexpr int64_t kMostThreads = 256;

struct SumArgs {
    Source values;
    RowTable rows = {};
    float* partials = nullptr;
    int64_t columns = 0;
    int64_t tiles = 0;  // of columns
};

// Adds some rows to the sums, one after another. All columns are there, unless the type is any.
template <class T, int rows>
__device__ inline void add_rows(const Source& source, int64_t place, int64_t left, float (&sums)[kColumnsPerThread]) {
    float values[rows][kColumnsPerThread];
#pragma unroll
    for (int k = 0; k < rows; ++k) {
        load<T>(source, place + k * source.stride, kIsAny<T> ? left : kColumnsPerThread, values[k]);
    }
#pragma unroll
    for (int k = 0; k < rows; ++k) {
#pragma unroll
        for (int i = 0; i < kColumnsPerThread; ++i) {
            sums[i] += values[k][i];
        }
    }
}

// A thread has eight columns, a block the rows of one partial sum in one tile of columns.
template <class T>
__global__ void __launch_bounds__(kMostThreads) sum_columns(SumArgs args) {
    const auto tiles = static_cast<uint32_t>(args.tiles);
    const Piece piece = piece_of(args.rows, blockIdx.x / tiles);
    const int64_t tile = blockIdx.x % tiles;
    const int64_t column = (tile * blockDim.x + threadIdx.x) * kColumnsPerThread;
    const int64_t left = args.columns - column;
    if (piece.rows == 0 || left <= 0) {
        return;
    }
    float sums[kColumnsPerThread] = {};
    const int64_t begin = piece.first_row * args.values.stride + column;
    const auto rows = static_cast<int>(piece.rows);
    // The branch-free loop has several rows on their way at once.
    const int whole = rows / kRowsAtOnce * kRowsAtOnce;
    for (int r = 0; r < whole; r += kRowsAtOnce) {
        add_rows<T, kRowsAtOnce>(args.values, begin + r * args.values.stride, left, sums);
    }
    for (int r = whole; r < rows; ++r) {
        add_rows<T, 1>(args.values, begin + r * args.values.stride, left, sums);
    }
    float* to = args.partials + piece.partial * args.columns + column;
    if constexpr (!kIsAny<T>) {
        store_vector(sums, to);
    } else {
        for (int i = 0; i < kColumnsPerThread && i < left; ++i) {
            to[i] = sums[i];
        }
    }
}

// Rows that begin in the middle of a word, or end there, go one by one.
bool has_whole_vectors(const AnyConstView& values) {
    return values.columns % kColumnsPerThread == 0 && has_vectors(values, kColumnsPerThread);
}

}  // namespace

void RowSegments::add(const RowRange& range, int64_t work) {
    if (range.rows == 0) {
        return;
    }
    const RowSegment* last = segments.empty() ? nullptr : &segments.back();
    const int64_t blocks_before = last == nullptr ? 0 : last->first_block + partial_sums_of(last->rows);
    segments.push_back({.first_row = range.first,
                        .rows = range.rows,
                        .rows_per_block = rows_of_partial_sum(range.rows),
                        .first_block = blocks_before,
                        .first_partial = partials,
                        .work = work});
    if ((work & kSumWork) != 0) {
        partials += partial_sums_of(range.rows);
    }
}

int64_t RowSegments::blocks() const {
    int64_t exact = 0;
    int64_t rows = 0;
    bool alike = true;
    for (const RowSegment& segment : segments) {
        exact += partial_sums_of(segment.rows);
        rows += segment.rows;
        alike = alike && segment.rows == segments.front().rows;
    }
    // 4,095 rows in blocks of 8 are 512 blocks, 385 more than there would be in blocks of 32: no size has more than that.
    constexpr int64_t kMoreThanLarge = 385;
    const auto count = std::ssize(segments);
    return alike ? exact : std::min(rows / 4 + count, rows / 32 + kMoreThanLarge * count);
}

// Blocks beyond the last segment are started only where segments differ.
RowTable table_of(Tape& tape, const RowSegments& rows) {
    if (rows.segments.empty()) {
        return {};
    }
    RowTable table{.first = rows.segments.front(), .count = std::ssize(rows.segments)};
    const int64_t parts = partial_sums_of(table.first.rows);
    bool alike = true;
    for (int64_t i = 0; i < table.count; ++i) {
        const RowSegment& segment = rows.segments[static_cast<size_t>(i)];
        alike = alike && segment.rows == table.first.rows && segment.work == table.first.work &&
                segment.first_row == table.first.first_row + i * segment.rows && segment.first_block == i * parts &&
                segment.first_partial == table.first.first_partial + i * parts;
    }
    if (alike) {
        table.alike = 1;
    } else {
        table.first = {};
        table.segments = tape.constant(std::span<const RowSegment>(rows.segments));
    }
    return table;
}

RowSegments segments_of_sums(std::span<const RowRange> grains) {
    RowSegments result;
    for (const RowRange& grain : grains) {
        result.add(grain, kSumWork);
    }
    return result;
}

RowSegments segments_without_sums(int64_t rows) {
    RowSegments result;
    result.add({.first = 0, .rows = rows}, kRowWork);
    return result;
}

RowSegments segments_of_rows(int64_t rows, std::span<const RowRange> grains) {
    if (!are_in_order(grains)) {  // or rows of two grains: their sums by themselves
        RowSegments result = segments_without_sums(rows);
        for (const RowRange& grain : grains) {
            result.add(grain, kSumWork);
        }
        return result;
    }
    RowSegments result;
    int64_t done = 0;
    for (const RowRange& grain : grains) {
        result.add({.first = done, .rows = grain.first - done}, kRowWork);
        result.add(grain, kRowWork | kSumWork);
        done = grain.first + grain.rows;
    }
    result.add({.first = done, .rows = rows - done}, kRowWork);
    return result;
}

void add_column_sums(Context& context, AnyConstView values, std::span<const RowRange> grains,
                     std::span<const SumView> sums, Scratch& scratch) {
    const RowSegments rows = segments_of_sums(grains);
    if (sums.empty() || rows.segments.empty() || values.columns == 0) {
        return;
    }
    const int64_t begin = scratch.bytes();
    const ColumnSums cut = context.totals.room(context, scratch, values.columns, 1, grains);
    const int64_t vectors = (values.columns + kColumnsPerThread - 1) / kColumnsPerThread;
    const int64_t tiles = (vectors + kMostThreads - 1) / kMostThreads;
    const int64_t threads = ((vectors + tiles - 1) / tiles + 31) / 32 * 32;
    const SumArgs args{.values = source_of(values),
                       .rows = table_of(context.tape, rows),
                       .partials = cut.partials,
                       .columns = values.columns,
                       .tiles = tiles};
    const Shape shape{.blocks = dim3(static_cast<uint32_t>(tiles * rows.blocks())),
                      .threads = static_cast<uint32_t>(threads)};
    if (has_whole_vectors(values)) {
        with_type(values.dtype,
                  [&](auto tag) { context.tape.launch(sum_columns<typename decltype(tag)::type>, shape, args); });
    } else {
        context.tape.launch(sum_columns<AnyType>, shape, args);
    }
    const TensorSums wanted{.sums = sums, .tensor = 0};
    add_totals(context, cut, values.columns, 1, grains, std::span(&wanted, 1), scratch);
    scratch.rewind(begin);
}

}  // namespace accrue::cuda
