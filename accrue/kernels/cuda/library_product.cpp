#include "accrue/kernels/cuda/library_product.h"

#include <array>

#include "accrue/base/error.h"
#include "accrue/base/random.h"

namespace accrue::cuda {
namespace {

constexpr int kCandidates = 16;

// The family of kernels whose members all have the same bits on Hopper, as long as none splits the reduction (seen on an H200
// for 640 pairs of algorithm and size; Products looks again on the GPU that it is made for).
constexpr int kRuleId = 66;

cudaDataType_t type_of(DType dtype) {
    switch (dtype) {
        case DType::bf16:
            return CUDA_R_16BF;
        case DType::fp16:
            return CUDA_R_16F;
        default:
            return CUDA_R_32F;
    }
}

void require(cublasStatus_t status, const ProductShape& shape) {
    if (status != CUBLAS_STATUS_SUCCESS) {
        throw Error(
            cat("cuBLASLt cannot describe a product of ", text_of(shape), ": ", cublasLtGetStatusString(status)));
    }
}

template <class T>
T setting_of(const Algorithm& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute, T missing) {
    T value = missing;
    size_t written = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof(value), &written);
    return status == CUBLAS_STATUS_SUCCESS ? value : missing;
}

bool obeys_rule(const Algorithm& algorithm) {
    return setting_of<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_ID, -1) == kRuleId &&
           setting_of<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 2) <= 1 &&
           setting_of<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, CUBLASLT_REDUCTION_SCHEME_MASK) ==
               CUBLASLT_REDUCTION_SCHEME_NONE;
}

// What the library may count on: no more than what every product has that it is asked for, so that the answer does not
// depend on addresses.
class Preference {
public:
    explicit Preference(int64_t workspace_bytes) {
        is_good_ = cublasLtMatmulPreferenceInit(&opaque_) == CUBLAS_STATUS_SUCCESS;
        set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace_bytes));
        set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
        for (const auto attribute :
             {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
            set(attribute, static_cast<uint32_t>(kProductAlignment));
        }
    }
    [[nodiscard]] bool is_good() const { return is_good_; }
    [[nodiscard]] cublasLtMatmulPreference_t get() { return &opaque_; }

private:
    template <class T>
    void set(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
        is_good_ = is_good_ && cublasLtMatmulPreferenceSetAttribute(&opaque_, attribute, &value, sizeof(value)) ==
                                   CUBLAS_STATUS_SUCCESS;
    }

    cublasLtMatmulPreferenceOpaque_t opaque_{};
    bool is_good_ = false;
};

}  // namespace

ProductShape shape_of(const Product& product) {
    return {.dtype = product.dtype,
            .output_dtype = product.output_dtype,
            .left_along_depth = product.left.along_depth,
            .right_along_depth = product.right.along_depth,
            .has_bias = product.bias != nullptr,
            .has_residual = product.residual != nullptr,
            .rows = product.rows,
            .columns = product.columns,
            .depth = product.depth,
            .batch = product.batch,
            .left_stride = product.left.stride,
            .left_batch_stride = product.left.batch_stride,
            .right_stride = product.right.stride,
            .right_batch_stride = product.right.batch_stride,
            .output_stride = product.output_stride,
            .output_batch_stride = product.output_batch_stride,
            .residual_stride = product.residual_stride};
}

ProductPlaces places_of(const Product& product) {
    return {.left = product.left.data,
            .right = product.right.data,
            .output = product.output,
            .bias = product.bias == nullptr ? nullptr : product.library_bias,
            .residual = product.residual};
}

std::string text_of(const ProductShape& shape) {
    return cat(shape.batch, " x [", shape.rows, ", ", shape.depth, "] times [", shape.depth, ", ", shape.columns,
               "] in ", name_of(shape.dtype), " to ", name_of(shape.output_dtype),
               shape.has_bias ? ", with a bias" : "", shape.has_residual ? ", added to a matrix" : "");
}

size_t ProductShapeHash::operator()(const ProductShape& shape) const {
    const uint64_t kind = static_cast<uint64_t>(shape.dtype) | static_cast<uint64_t>(shape.output_dtype) << 8 |
                          uint64_t{shape.left_along_depth} << 16 | uint64_t{shape.right_along_depth} << 17 |
                          uint64_t{shape.has_bias} << 18 | uint64_t{shape.has_residual} << 19;
    return mix(kind, shape.rows, shape.columns, shape.depth, shape.batch, shape.left_stride, shape.right_stride,
               shape.output_stride, shape.output_batch_stride);
}

LibraryProduct::LibraryProduct(const ProductShape& shape) : shape_(shape) {
    cuda::require(cublasLtMatmulDescInit(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F), shape_);
    set(CUBLASLT_MATMUL_DESC_TRANSA, shape.right_along_depth ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, shape.left_along_depth ? CUBLAS_OP_N : CUBLAS_OP_T);
    if (shape.has_bias) {
        set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
        set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(type_of(shape.output_dtype)));
    }
    // A column of the library's matrix is a line of ours.
    set_layout(a_, shape.dtype, shape.right_along_depth ? shape.depth : shape.columns,
               shape.right_along_depth ? shape.columns : shape.depth, shape.right_stride, shape.right_batch_stride);
    set_layout(b_, shape.dtype, shape.left_along_depth ? shape.depth : shape.rows,
               shape.left_along_depth ? shape.rows : shape.depth, shape.left_stride, shape.left_batch_stride);
    set_layout(c_, shape.output_dtype, shape.columns, shape.rows,
               shape.has_residual ? shape.residual_stride : shape.output_stride, shape.output_batch_stride);
    set_layout(d_, shape.output_dtype, shape.columns, shape.rows, shape.output_stride, shape.output_batch_stride);
}

template <class T>
void LibraryProduct::set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    cuda::require(cublasLtMatmulDescSetAttribute(&description_, attribute, &value, sizeof(value)), shape_);
}

void LibraryProduct::set_layout(cublasLtMatrixLayoutOpaque_t& layout, DType dtype, int64_t rows, int64_t columns,
                                int64_t stride, int64_t batch_stride) {
    cuda::require(cublasLtMatrixLayoutInit(&layout, type_of(dtype), static_cast<uint64_t>(rows),
                                           static_cast<uint64_t>(columns), stride),
                  shape_);
    if (shape_.batch > 1) {
        const auto batch = static_cast<int32_t>(shape_.batch);
        cuda::require(
            cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)),
            shape_);
        cuda::require(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                       &batch_stride, sizeof(batch_stride)),
                      shape_);
    }
}

std::vector<Algorithm> LibraryProduct::candidates(const Library& library) {
    if (shape_.has_bias) {  // never read: its address says how it is aligned
        set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(uintptr_t{kProductAlignment}));
    }
    Preference preference(library.workspace_bytes);
    std::array<cublasLtMatmulHeuristicResult_t, kCandidates> found{};
    int count = 0;
    if (!preference.is_good() ||
        cublasLtMatmulAlgoGetHeuristic(library.handle, &description_, &a_, &b_, &c_, &d_, preference.get(), kCandidates,
                                       found.data(), &count) != CUBLAS_STATUS_SUCCESS) {
        return {};
    }
    std::vector<Algorithm> result;
    for (int i = 0; i < count; ++i) {
        const cublasLtMatmulHeuristicResult_t& one = found[static_cast<size_t>(i)];
        if (one.state == CUBLAS_STATUS_SUCCESS && static_cast<int64_t>(one.workspaceSize) <= library.workspace_bytes &&
            obeys_rule(one.algo)) {
            result.push_back(one.algo);
        }
    }
    return result;
}

bool LibraryProduct::takes(const Library& library, const Algorithm& algorithm) {
    cublasLtMatmulHeuristicResult_t answer{};
    return cublasLtMatmulAlgoCheck(library.handle, &description_, &a_, &b_, &c_, &d_, &algorithm, &answer) ==
               CUBLAS_STATUS_SUCCESS &&
           static_cast<int64_t>(answer.workspaceSize) <= library.workspace_bytes;
}

cublasStatus_t LibraryProduct::run(const Library& library, const Algorithm& algorithm, const ProductPlaces& places,
                                   cudaStream_t stream) {
    static constexpr float kOne = 1;
    static constexpr float kNone = 0;
    if (shape_.has_bias) {
        set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, places.bias);
    }
    const void* const added = shape_.has_residual ? places.residual : places.output;
    return cublasLtMatmul(library.handle, &description_, &kOne, places.right, &a_, places.left, &b_,
                          shape_.has_residual ? &kOne : &kNone, added, &c_, places.output, &d_, &algorithm,
                          library.workspace, static_cast<size_t>(library.workspace_bytes), stream);
}

}  // namespace accrue::cuda
