// The matrix library as the program uses it: some algorithms that have the same bits and some that do not, so that choosing
// among them is tried too. Sums in fp32, by fused multiply-adds in ascending order.
#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/simulated_gpu/runtime.h"
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <immintrin.h>

namespace accrue::simulated {
namespace {

struct Layout {
    cudaDataType type;
    int32_t batch;
    uint64_t rows;
    uint64_t columns;
    int64_t stride;
    int64_t batch_stride;
};
static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));

struct Description {
    cublasOperation_t transposes_a;
    cublasOperation_t transposes_b;
    cublasLtEpilogue_t epilogue;
    int32_t bias_type;
    const void* bias;
};
static_assert(sizeof(Description) <= sizeof(cublasLtMatmulDescOpaque_t));

struct Algorithm {
    int32_t id;
    int32_t splits;
    uint32_t scheme;
    int32_t is_descending;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

template <class T, class Opaque>
T& as(Opaque* opaque) {
    return *reinterpret_cast<T*>(opaque);
}
template <class T, class Opaque>
const T& as(const Opaque* opaque) {
    return *reinterpret_cast<const T*>(opaque);
}

int bytes_of(cudaDataType type) {
    return type == CUDA_R_32F ? 4 : 2;
}

float element(const void* data, cudaDataType type, int64_t place) {
    switch (type) {
        case CUDA_R_16BF:
            return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[place]);
        case CUDA_R_16F:
            return __half2float(static_cast<const __half*>(data)[place]);
        default:
            return static_cast<const float*>(data)[place];
    }
}

void store(void* data, cudaDataType type, int64_t place, float value) {
    switch (type) {
        case CUDA_R_16BF:
            static_cast<__nv_bfloat16*>(data)[place] = __float2bfloat16_rn(value);
            break;
        case CUDA_R_16F:
            static_cast<__half*>(data)[place] = __float2half_rn(value);
            break;
        default:
            static_cast<float*>(data)[place] = value;
    }
}

// Sums of so many rows and columns stay in the processor's registers while they are made.
constexpr int64_t kTileRows = 16;
constexpr int64_t kTileColumns = 6;

int64_t in_tiles(int64_t lines, int64_t tile) {
    return (lines + tile - 1) / tile;
}

// The library's matrices lie column by column. op(matrix), [lines, depth], in groups of `tile` lines, depth by depth; lines that
// are missing in the last group are zeroes.
std::vector<float> by_depth(const void* data, const Layout& layout, bool is_transposed, int64_t lines, int64_t depth,
                            int64_t tile) {
    std::vector<float> result(static_cast<size_t>(in_tiles(lines, tile) * tile * depth));
    for (int64_t i = 0; i < lines; ++i) {
        float* const to = result.data() + i / tile * tile * depth + i % tile;
        for (int64_t k = 0; k < depth; ++k) {
            to[k * tile] = element(data, layout.type, is_transposed ? i * layout.stride + k : k * layout.stride + i);
        }
    }
    return result;
}

// `step`: 1 = in ascending order, -1 = in descending order.
void sum_tile(const float* left, const float* right, int64_t depth, int64_t step,
              float (&sums)[kTileColumns][kTileRows]) {
    __m256 low[kTileColumns] = {};
    __m256 high[kTileColumns] = {};
    for (int64_t i = 0, k = step > 0 ? 0 : depth - 1; i < depth; ++i, k += step) {
        const __m256 first = _mm256_loadu_ps(left + k * kTileRows);
        const __m256 second = _mm256_loadu_ps(left + k * kTileRows + 8);
#pragma GCC unroll 6
        for (int64_t column = 0; column < kTileColumns; ++column) {
            const __m256 factor = _mm256_set1_ps(right[k * kTileColumns + column]);
            low[column] = _mm256_fmadd_ps(first, factor, low[column]);
            high[column] = _mm256_fmadd_ps(second, factor, high[column]);
        }
    }
    for (int64_t column = 0; column < kTileColumns; ++column) {
        _mm256_storeu_ps(sums[column], low[column]);
        _mm256_storeu_ps(sums[column] + 8, high[column]);
    }
}

struct Matmul {
    Description description;
    Layout a, b, c, d;
    Algorithm algorithm;
    float alpha, beta;
    const void *a_data, *b_data, *c_data;
    void* d_data;

    void run() const {
        for (int32_t batch = 0; batch < std::max(1, d.batch); ++batch) {
            run_one(batch);
        }
    }

private:
    void run_one(int64_t batch) const {
        const auto rows = static_cast<int64_t>(d.rows);
        const auto columns = static_cast<int64_t>(d.columns);
        const bool turned = description.transposes_a == CUBLAS_OP_T;
        const auto depth = static_cast<int64_t>(turned ? a.rows : a.columns);
        const auto left = by_depth(moved(a_data, a, batch), a, turned, rows, depth, kTileRows);
        // Its second operand is [depth, columns]: what is a transposed one for the first is a plain one here.
        const bool plain = description.transposes_b == CUBLAS_OP_N;
        const auto right = by_depth(moved(b_data, b, batch), b, plain, columns, depth, kTileColumns);
        const int64_t step = algorithm.is_descending != 0 ? -1 : 1;
        for (int64_t j = 0; j < columns; j += kTileColumns) {
            for (int64_t i = 0; i < rows; i += kTileRows) {
                float sums[kTileColumns][kTileRows];
                sum_tile(left.data() + i * depth, right.data() + j * depth, depth, step, sums);
                for (int64_t column = j; column < std::min(columns, j + kTileColumns); ++column) {
                    for (int64_t row = i; row < std::min(rows, i + kTileRows); ++row) {
                        finish(batch, row, column, sums[column - j][row - i]);
                    }
                }
            }
        }
    }

    static const void* moved(const void* data, const Layout& layout, int64_t batch) {
        return static_cast<const std::byte*>(data) + batch * layout.batch_stride * bytes_of(layout.type);
    }

    void finish(int64_t batch, int64_t row, int64_t column, float sum) const {
        float value = alpha * sum;
        if (beta != 0) {
            value += beta * element(c_data, c.type, batch * c.batch_stride + column * c.stride + row);
        }
        if (description.epilogue == CUBLASLT_EPILOGUE_BIAS) {
            value += element(description.bias, static_cast<cudaDataType>(description.bias_type), row);
        }
        store(d_data, d.type, batch * d.batch_stride + column * d.stride + row, value);
    }
};

// Matrices whose lines are not whole words of 16 bytes are refused, and edges that are odd.
bool takes(const Layout& a, const Layout& b, const Layout& d) {
    for (const Layout& layout : {a, b, d}) {
        const int64_t word = 16 / bytes_of(layout.type);
        if (layout.stride % word != 0 || (layout.batch > 1 && layout.batch_stride % word != 0)) {
            return false;
        }
    }
    return d.rows % 8 == 0;
}

}  // namespace
}  // namespace accrue::simulated

using namespace accrue::simulated;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    *handle = reinterpret_cast<cublasLtHandle_t>(handle);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) {
    return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() {
    return CUBLAS_VERSION;
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "refused by the simulated library";
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t opaque, size_t, cublasComputeType_t compute,
                                               cudaDataType_t scale) {
    as<Description>(opaque) = {.transposes_a = CUBLAS_OP_N,
                               .transposes_b = CUBLAS_OP_N,
                               .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                               .bias_type = CUDA_R_32F,
                               .bias = nullptr};
    return compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t opaque, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
    auto& description = as<Description>(opaque);
    switch (attribute) {
        case CUBLASLT_MATMUL_DESC_TRANSA:
            std::memcpy(&description.transposes_a, value, bytes);
            break;
        case CUBLASLT_MATMUL_DESC_TRANSB:
            std::memcpy(&description.transposes_b, value, bytes);
            break;
        case CUBLASLT_MATMUL_DESC_EPILOGUE:
            std::memcpy(&description.epilogue, value, bytes);
            break;
        case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
            std::memcpy(&description.bias_type, value, bytes);
            break;
        case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
            std::memcpy(&description.bias, value, bytes);
            break;
        default:
            return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t opaque, size_t, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t stride) {
    as<Layout>(opaque) = {
        .type = type, .batch = 1, .rows = rows, .columns = columns, .stride = stride, .batch_stride = 0};
    return static_cast<int64_t>(rows) <= stride ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t opaque,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t bytes) {
    auto& layout = as<Layout>(opaque);
    switch (attribute) {
        case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
            std::memcpy(&layout.batch, value, bytes);
            break;
        case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
            std::memcpy(&layout.batch_stride, value, bytes);
            break;
        default:
            return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t, size_t) {
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
    return CUBLAS_STATUS_SUCCESS;
}

// Two that obey the rule of bits, among three that do not.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t found[], int* count) {
    static constexpr Algorithm kAll[] = {{.id = 16, .splits = 1, .scheme = 0, .is_descending = 1},
                                         {.id = 66, .splits = 1, .scheme = 0, .is_descending = 0},
                                         {.id = 66, .splits = 3, .scheme = 2, .is_descending = 1},
                                         {.id = 66, .splits = 0, .scheme = 0, .is_descending = 0},
                                         {.id = 67, .splits = 1, .scheme = 0, .is_descending = 1}};
    *count = 0;
    if (!takes(as<Layout>(a), as<Layout>(b), as<Layout>(d))) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    for (const Algorithm& algorithm : kAll) {
        if (*count < most) {
            found[*count] = {};
            as<Algorithm>(&found[*count].algo) = algorithm;
            found[*count].state = CUBLAS_STATUS_SUCCESS;
            ++*count;
        }
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t*, cublasLtMatmulHeuristicResult_t* result) {
    *result = {};
    return takes(as<Layout>(a), as<Layout>(b), as<Layout>(d)) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* opaque,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
                                                    size_t bytes, size_t* written) {
    const auto& algorithm = as<Algorithm>(opaque);
    switch (attribute) {
        case CUBLASLT_ALGO_CONFIG_ID:
            std::memcpy(value, &algorithm.id, bytes);
            break;
        case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
            std::memcpy(value, &algorithm.splits, bytes);
            break;
        case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
            std::memcpy(value, &algorithm.scheme, bytes);
            break;
        default:
            return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha, const void* a_data,
                              cublasLtMatrixLayout_t a, const void* b_data, cublasLtMatrixLayout_t b, const void* beta,
                              const void* c_data, cublasLtMatrixLayout_t c, void* d_data, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algorithm, void*, size_t, cudaStream_t stream) {
    if (!takes(as<Layout>(a), as<Layout>(b), as<Layout>(d))) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    const Matmul matmul{.description = as<Description>(description),
                        .a = as<Layout>(a),
                        .b = as<Layout>(b),
                        .c = as<Layout>(c),
                        .d = as<Layout>(d),
                        .algorithm = as<Algorithm>(algorithm),
                        .alpha = *static_cast<const float*>(alpha),
                        .beta = *static_cast<const float*>(beta),
                        .a_data = a_data,
                        .b_data = b_data,
                        .c_data = c_data,
                        .d_data = d_data};
    enqueue(stream, [matmul] { matmul.run(); });
    return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
