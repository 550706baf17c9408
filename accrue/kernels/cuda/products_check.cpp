#include <algorithm>
#include <cstring>
#include <span>

#include "accrue/base/random.h"
#include "accrue/kernels/cuda/cuda_error.h"
#include "accrue/kernels/cuda/products.h"
#include "accrue/kernels/cuda/scratch.h"

// Whether this GPU and this version of the library keep the rule of bits: small products of every kind, of a grain alone and
// among others, by all algorithms that the rule allows.
namespace accrue::cuda {
namespace {

constexpr int64_t kGrains = 4;
constexpr int64_t kGrainRows = 320;  // a grain ends inside a tile
constexpr int64_t kRows = kGrains * kGrainRows;
constexpr int64_t kIn = 1024;
constexpr int64_t kOut = 512;

// Of the library's workspace; the rest stays with the library.
constexpr int64_t kMatrixBytes = int64_t{16} << 20;

// A product of all grains, and the same of the last grain alone. The outputs of a grain follow those of the one before.
struct GrainProducts {
    Product all;
    Product last;
};

class Matrices {
public:
    Matrices(std::byte* memory, DType dtype, cudaStream_t stream) : dtype_(dtype), stream_(stream) {
        Scratch scratch(memory);
        input_ = narrow(scratch.take<uint16_t>(kRows * kIn), kRows * kIn, 1);
        d_output_ = narrow(scratch.take<uint16_t>(kRows * kOut), kRows * kOut, 2);
        weight_ = narrow(scratch.take<uint16_t>(kOut * kIn), kOut * kIn, 3);
        narrow_bias_ = narrow(scratch.take<uint16_t>(kOut), kOut, 4);
        bias_ = wide(scratch.take<float>(kOut), kOut, 5);
        residual_ = wide(scratch.take<float>(kRows * kOut), kRows * kOut, 6);
        output_ = scratch.take<float>(kGrains * kOut * kIn);
        fits_ = scratch.bytes() <= kMatrixBytes;
    }
    [[nodiscard]] bool fit() const { return fits_; }

    [[nodiscard]] GrainProducts forward() const {
        return of_rows({.dtype = dtype_,
                        .columns = kOut,
                        .depth = kIn,
                        .left = {.data = input_, .stride = kIn},
                        .right = {.data = weight_, .stride = kIn},
                        .output = output_,
                        .output_dtype = dtype_,
                        .output_stride = kOut,
                        .bias = bias_,
                        .library_bias = narrow_bias_});
    }
    [[nodiscard]] GrainProducts forward_to_residual() const {
        GrainProducts result = forward();
        for (Product* product : {&result.all, &result.last}) {
            product->output_dtype = DType::fp32;
            product->library_bias = bias_;
            product->residual = residual_;
            product->residual_stride = kOut;
        }
        result.last.residual += (kRows - kGrainRows) * kOut;
        return result;
    }
    [[nodiscard]] GrainProducts input_gradient() const {
        return of_rows({.dtype = dtype_,
                        .columns = kIn,
                        .depth = kOut,
                        .left = {.data = d_output_, .stride = kOut},
                        .right = {.data = weight_, .stride = kIn, .along_depth = false},
                        .output = output_,
                        .output_dtype = dtype_,
                        .output_stride = kIn});
    }
    [[nodiscard]] GrainProducts weight_gradient() const {
        const Product all{
            .dtype = dtype_,
            .rows = kOut,
            .columns = kIn,
            .depth = kGrainRows,
            .batch = kGrains,
            .left = {.data = d_output_, .stride = kOut, .along_depth = false, .batch_stride = kGrainRows * kOut},
            .right = {.data = input_, .stride = kIn, .along_depth = false, .batch_stride = kGrainRows * kIn},
            .output = output_,
            .output_stride = kIn,
            .output_batch_stride = kOut * kIn};
        Product last = all;
        last.batch = 1;
        last.left = {.data = moved(d_output_, (kRows - kGrainRows) * kOut), .stride = kOut, .along_depth = false};
        last.right = {.data = moved(input_, (kRows - kGrainRows) * kIn), .stride = kIn, .along_depth = false};
        last.output_batch_stride = 0;
        return {.all = all, .last = last};
    }

private:
    static const void* moved(const void* place, int64_t elements) {
        return static_cast<const uint16_t*>(place) + elements;
    }
    static GrainProducts of_rows(Product product) {
        GrainProducts result{.all = product, .last = product};
        result.all.rows = kRows;
        result.last.rows = kGrainRows;
        result.last.left.data = moved(product.left.data, (kRows - kGrainRows) * product.left.stride);
        return result;
    }
    // Numbers between -1 and 1.
    static float value(uint64_t seed, int64_t i) { return 2 * uniform(mix(seed, static_cast<uint64_t>(i))) - 1; }
    template <class T>
    const T* uploaded(T* to, const std::vector<T>& values) const {
        require(cudaMemcpyAsync(to, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice, stream_),
                "checking products");
        require(cudaStreamSynchronize(stream_), "checking products");
        return to;
    }
    const uint16_t* narrow(uint16_t* to, int64_t count, uint64_t seed) const {
        std::vector<uint16_t> values(static_cast<size_t>(count));
        for (int64_t i = 0; i < count; ++i) {
            const float x = value(seed, i);
            values[static_cast<size_t>(i)] = dtype_ == DType::bf16 ? Bf16(x).bits : Fp16(x).bits;
        }
        return uploaded(to, values);
    }
    const float* wide(float* to, int64_t count, uint64_t seed) const {
        std::vector<float> values(static_cast<size_t>(count));
        for (int64_t i = 0; i < count; ++i) {
            values[static_cast<size_t>(i)] = value(seed, i);
        }
        return uploaded(to, values);
    }

    DType dtype_;
    cudaStream_t stream_;
    bool fits_ = false;
    const uint16_t* input_ = nullptr;
    const uint16_t* d_output_ = nullptr;
    const uint16_t* weight_ = nullptr;
    const uint16_t* narrow_bias_ = nullptr;
    const float* bias_ = nullptr;
    const float* residual_ = nullptr;
    float* output_ = nullptr;
};

size_t output_bytes(const Product& product) {
    return static_cast<size_t>(product.rows * product.output_stride * product.batch * bytes_of(product.output_dtype));
}

// The outputs of the last grain by that algorithm, or nothing where it does not run.
std::vector<std::byte> last_outputs(const Library& library, const Product& product, size_t last_bytes,
                                    const Algorithm& algorithm, cudaStream_t stream) {
    LibraryProduct described(shape_of(product));
    const size_t all_bytes = output_bytes(product);
    require(cudaMemsetAsync(product.output, 0xff, all_bytes, stream), "checking products");
    if (!described.takes(library, algorithm) ||
        described.run(library, algorithm, places_of(product), stream) != CUBLAS_STATUS_SUCCESS) {
        return {};
    }
    std::vector<std::byte> result(last_bytes);
    const std::byte* const last = static_cast<const std::byte*>(product.output) + (all_bytes - last_bytes);
    require(cudaMemcpyAsync(result.data(), last, last_bytes, cudaMemcpyDeviceToHost, stream), "checking products");
    require(cudaStreamSynchronize(stream), "checking products");
    return result;
}

// Whether all algorithms for either size give the last grain the same bits, and there are some.
bool keeps_rule(const Library& library, const GrainProducts& products, cudaStream_t stream) {
    std::vector<Algorithm> algorithms = LibraryProduct(shape_of(products.all)).candidates(library);
    const std::vector<Algorithm> more = LibraryProduct(shape_of(products.last)).candidates(library);
    algorithms.insert(algorithms.end(), more.begin(), more.end());
    const size_t last_bytes = output_bytes(products.last);
    std::vector<std::byte> first;
    for (const Algorithm& algorithm : algorithms) {
        for (const Product* product : {&products.last, &products.all}) {
            std::vector<std::byte> found = last_outputs(library, *product, last_bytes, algorithm, stream);
            if (first.empty()) {
                first = std::move(found);
            } else if (!found.empty() && found != first) {
                return false;
            }
        }
    }
    return !first.empty();
}

}  // namespace

bool Products::check_rule(DType dtype) {
    if (library_.workspace_bytes <= kMatrixBytes) {
        return false;
    }
    // Work that is on the stream and uses the workspace is done before; what is only on a tape comes later.
    const Matrices matrices(library_.workspace, dtype, stream_);
    const Library rest{.handle = library_.handle,
                       .workspace = library_.workspace + kMatrixBytes,
                       .workspace_bytes = library_.workspace_bytes - kMatrixBytes};
    return matrices.fit() && keeps_rule(rest, matrices.forward(), stream_) &&
           keeps_rule(rest, matrices.forward_to_residual(), stream_) &&
           keeps_rule(rest, matrices.input_gradient(), stream_) &&
           keeps_rule(rest, matrices.weight_gradient(), stream_);
}

}  // namespace accrue::cuda
