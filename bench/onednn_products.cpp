#include "bench/onednn_products.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "bench/onednn_tiles.h"
#include <dnnl.hpp>
#include <immintrin.h>
#include <omp.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

// Tiles: large enough for the library, small enough to share out.
constexpr int64_t kTileRows = 256;
constexpr int64_t kTileColumns = 768;
constexpr int64_t kGradientTile = 384;

dnnl::memory::data_type type_of(DType dtype) {
    return dtype == DType::fp32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

// A matrix as oneDNN sees it: its rows or its columns may be the contiguous ones.
struct Side {
    const void* data;
    DType dtype;
    int64_t row_stride;
    int64_t column_stride;

    [[nodiscard]] Side from(int64_t row, int64_t column) const {
        const int64_t place = row * row_stride + column * column_stride;
        return {static_cast<const std::byte*>(data) + place * bytes_of(dtype), dtype, row_stride, column_stride};
    }
};

Side plain(AnyConstView view) {
    return {view.row(0), view.dtype, view.stride, 1};
}

Side transposed(AnyConstView view) {
    return {view.row(0), view.dtype, 1, view.stride};
}

dnnl::memory::desc description(const Side& side, int64_t rows, int64_t columns) {
    return {{rows, columns}, type_of(side.dtype), {side.row_stride, side.column_stride}};
}

// One tile's product; primitives are made once for each thread and shape.
void multiply(const Side& left, const Side& right, const Side& result, int64_t rows, int64_t columns, int64_t depth) {
    using Key = std::array<int64_t, 11>;
    thread_local const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    thread_local dnnl::stream stream(engine);
    thread_local std::map<Key, dnnl::matmul> made;
    const Key key{rows,
                  columns,
                  depth,
                  left.row_stride,
                  left.column_stride,
                  right.row_stride,
                  right.column_stride,
                  result.row_stride,
                  result.column_stride,
                  static_cast<int64_t>(left.dtype),
                  static_cast<int64_t>(result.dtype)};
    const auto left_form = description(left, rows, depth);
    const auto right_form = description(right, depth, columns);
    const auto result_form = description(result, rows, columns);
    auto place = made.find(key);
    if (place == made.end()) {
        omp_set_num_threads(1);
        place = made.emplace(key, dnnl::matmul({{left_form, right_form, result_form}, engine})).first;
    }
    const auto memory = [](const dnnl::memory::desc& form, const Side& side) {
        return dnnl::memory(form, engine, const_cast<void*>(side.data));
    };
    place->second.execute(stream, {{DNNL_ARG_SRC, memory(left_form, left)},
                                   {DNNL_ARG_WEIGHTS, memory(right_form, right)},
                                   {DNNL_ARG_DST, memory(result_form, result)}});
    stream.wait();
}

void multiply_in_tiles(Pool& pool, const Side& left, const Side& right, AnyView result, int64_t depth) {
    const int64_t down = (result.rows + kTileRows - 1) / kTileRows;
    const int64_t across = (result.columns + kTileColumns - 1) / kTileColumns;
    const Side whole = plain(result);
    pool.run(down * across, [&](int64_t item, int) {
        const int64_t row = item % down * kTileRows;
        const int64_t column = item / down * kTileColumns;
        multiply(left.from(row, 0), right.from(0, column), whole.from(row, column),
                 std::min(kTileRows, result.rows - row), std::min(kTileColumns, result.columns - column), depth);
    });
}

__attribute__((target("avx512f,avx512dq,avx512vl"))) void add_row(const float* values, int64_t count, double per_unit,
                                                                  int64_t* sums) {
    for (int64_t i = 0; i < count; i += 8) {
        const auto lanes = static_cast<__mmask8>(count - i >= 8 ? 0xff : (1 << (count - i)) - 1);
        const __m512d wide = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(lanes, values + i));
        const __m512i units = _mm512_cvtpd_epi64(_mm512_mul_pd(wide, _mm512_set1_pd(per_unit)));
        _mm512_mask_storeu_epi64(sums + i, lanes,
                                 _mm512_add_epi64(units, _mm512_maskz_loadu_epi64(lanes, sums + i)));
    }
}

}  // namespace

void onednn_forward(Pool& pool, AnyConstView input, AnyConstView weight, AnyView output) {
    multiply_in_tiles(pool, plain(input), transposed(weight), output, input.columns);
}

void onednn_input_grad(Pool& pool, AnyConstView d_output, AnyConstView weight, AnyView d_input) {
    multiply_in_tiles(pool, plain(d_output), plain(weight), d_input, d_output.columns);
}

void onednn_weight_grad(Pool& pool, AnyConstView d_output, AnyConstView input, double per_unit, View<int64_t> sums) {
    const int64_t down = (sums.rows + kGradientTile - 1) / kGradientTile;
    const int64_t across = (sums.columns + kGradientTile - 1) / kGradientTile;
    pool.run(down * across, [&](int64_t item, int) {
        thread_local std::vector<float> tile(static_cast<size_t>(kGradientTile * kGradientTile));
        const int64_t row = item % down * kGradientTile;
        const int64_t column = item / down * kGradientTile;
        const int64_t rows = std::min(kGradientTile, sums.rows - row);
        const int64_t columns = std::min(kGradientTile, sums.columns - column);
        multiply(transposed(d_output).from(row, 0), plain(input).from(0, column),
                 {tile.data(), DType::fp32, columns, 1}, rows, columns, d_output.rows);
        for (int64_t r = 0; r < rows; ++r) {
            add_row(tile.data() + r * columns, columns, per_unit, sums.row(row + r) + column);
        }
    });
}

std::string limit_onednn() {
    if (!onednn_must_avoid_tiles(tile_facts())) {
        return "";
    }
    if (dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16) != dnnl::status::success) {
        throw Error("this machine hides the palette of its AMX tiles (CPUID leaf 0x1D), and oneDNN cannot be kept from using "
                    "them. Set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 and run it again.");
    }
    return "AVX-512 with bf16: this machine hides the palette of its AMX tiles (CPUID leaf 0x1D)";
}

}  // namespace accrue
