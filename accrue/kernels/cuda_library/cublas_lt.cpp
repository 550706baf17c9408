// cuBLASLt's functions by its own names, found in its library when the first of them is called. Linked as usual, the library, hundreds
// of megabytes, would be loaded into every process, also where there is no GPU, and no program would start where it is not installed.
#include <string>
#include <string_view>

#include <cublasLt.h>
#include <dlfcn.h>

#include "accrue/base/error.h"

namespace {

// The version that the program was built with: another one may have other structs.
std::string library_name() {
    return accrue::cat("libcublasLt.so.", CUBLAS_VER_MAJOR);
}

// Where the system looks, or else where a toolkit is, the one that the program was built with first.
void* open_library() {
    const std::string name = library_name();
    for (const std::string_view folder :
         {"", ACCRUE_CUDA_LIBRARIES "/", "/usr/local/cuda/lib64/", "/opt/cuda/lib64/"}) {
        if (void* const library = dlopen(accrue::cat(folder, name).c_str(), RTLD_NOW | RTLD_LOCAL);
            library != nullptr) {
            return library;
        }
    }
    throw accrue::Error(
        accrue::cat("a GPU's products need cuBLASLt, and ", name,
                    " was not found on this machine. It comes with the CUDA toolkit: install it (the package "
                    "libcublas), or name the folder that has it in LD_LIBRARY_PATH; or use --set "
                    "compute.device=cpu."));
}

void* the_library() {
    static void* const library = open_library();
    return library;
}

// The library's function of this name.
template <class Function>
Function* found(const char* name) {
    auto* const function = reinterpret_cast<Function*>(dlsym(the_library(), name));
    if (function == nullptr) {
        throw accrue::Error(
            accrue::cat(library_name(), " has no ", name, ": it is not the one that this program was built with."));
    }
    return function;
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    static auto* const call = found<decltype(cublasLtCreate)>("cublasLtCreate");
    return call(handle);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    static auto* const call = found<decltype(cublasLtDestroy)>("cublasLtDestroy");
    return call(handle);
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
    static auto* const call = found<decltype(cublasLtGetStatusString)>("cublasLtGetStatusString");
    return call(status);
}

size_t cublasLtGetVersion() {
    static auto* const call = found<decltype(cublasLtGetVersion)>("cublasLtGetVersion");
    return call();
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
    static auto* const call = found<decltype(cublasLtMatmul)>("cublasLtMatmul");
    return call(handle, product, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm, workspace,
                workspace_bytes, stream);
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                       cublasLtMatrixLayout_t a_layout, cublasLtMatrixLayout_t b_layout,
                                       cublasLtMatrixLayout_t c_layout, cublasLtMatrixLayout_t d_layout,
                                       const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result) {
    static auto* const call = found<decltype(cublasLtMatmulAlgoCheck)>("cublasLtMatmulAlgoCheck");
    return call(handle, product, a_layout, b_layout, c_layout, d_layout, algorithm, result);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
                                                    size_t bytes, size_t* written) {
    static auto* const call =
        found<decltype(cublasLtMatmulAlgoConfigGetAttribute)>("cublasLtMatmulAlgoConfigGetAttribute");
    return call(algorithm, attribute, value, bytes, written);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a_layout, cublasLtMatrixLayout_t b_layout,
                                              cublasLtMatrixLayout_t c_layout, cublasLtMatrixLayout_t d_layout,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
    static auto* const call = found<decltype(cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic");
    return call(handle, product, a_layout, b_layout, c_layout, d_layout, preference, most, results, count);
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t product, size_t bytes,
                                               cublasComputeType_t compute_type, cudaDataType_t scale_type) {
    static auto* const call = found<decltype(cublasLtMatmulDescInit_internal)>("cublasLtMatmulDescInit_internal");
    return call(product, bytes, compute_type, scale_type);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
    static auto* const call = found<decltype(cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute");
    return call(product, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t bytes) {
    static auto* const call =
        found<decltype(cublasLtMatmulPreferenceInit_internal)>("cublasLtMatmulPreferenceInit_internal");
    return call(preference, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t bytes) {
    static auto* const call =
        found<decltype(cublasLtMatmulPreferenceSetAttribute)>("cublasLtMatmulPreferenceSetAttribute");
    return call(preference, attribute, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t bytes, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t stride) {
    static auto* const call = found<decltype(cublasLtMatrixLayoutInit_internal)>("cublasLtMatrixLayoutInit_internal");
    return call(layout, bytes, type, rows, columns, stride);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t bytes) {
    static auto* const call = found<decltype(cublasLtMatrixLayoutSetAttribute)>("cublasLtMatrixLayoutSetAttribute");
    return call(layout, attribute, value, bytes);
}
