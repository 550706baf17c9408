#include "accrue/kernels/cuda/products.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "accrue/base/error.h"
#include "accrue/kernels/cuda/cuda_error.h"
#include "accrue/kernels/cuda/product_own.h"

namespace accrue::cuda {
namespace {

constexpr int kRuleArchitecture = 90;

// Rows that stand for any number of them when the library is asked what it has for a kind of product.
constexpr int64_t kTypicalRows = 1024;

// A time is the best of so many, each of so many runs behind one another.
constexpr int kTimings = 3;
constexpr int kShortRuns = 10;
constexpr int kLongRuns = 2;
constexpr double kLongFlops = 2e10;

// Weight gradients sum over rows; in all other products rows are rows of the result.
bool sums_over_rows(const ProductShape& shape) {
    return !shape.left_along_depth;
}

// The shape with another number of rows, outputs of a batch lying one behind the other.
ProductShape with_rows(ProductShape shape, int64_t rows) {
    if (sums_over_rows(shape)) {
        shape.depth = rows;
    } else {
        shape.rows = rows;
        shape.output_batch_stride = shape.batch > 1 ? rows * shape.output_stride : 0;
    }
    return shape;
}

// What the choice between the library and our own kernels may depend on.
ProductShape kind_of(ProductShape shape) {
    if (sums_over_rows(shape)) {  // whose depth is the grain's, so it stays
        shape.batch = 1;
        shape.left_batch_stride = 0;
        shape.right_batch_stride = 0;
        shape.output_batch_stride = 0;
        return shape;
    }
    return with_rows(shape, kTypicalRows);
}

// One shape for all whose rows differ by less than an eighth: they share what was timed, or ragged samples would be timed
// without end.
ProductShape size_class_of(const ProductShape& shape) {
    const int64_t rows = sums_over_rows(shape) ? shape.depth : shape.rows;
    const int64_t step = std::max<int64_t>(128, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(rows))) / 8);
    return with_rows(shape, (rows + step - 1) / step * step);
}

int64_t even_part(int64_t extent) {
    return extent / 8 * 8;
}

// Whether its dtypes and places are such as the library wants.
bool may_be_for_library(const Product& product) {
    const bool has_dtype =
        product.dtype != DType::fp32 && (product.output_dtype == DType::fp32 || product.output_dtype == product.dtype);
    return has_dtype && is_aligned(product.left, product.dtype) && is_aligned(product.right, product.dtype) &&
           is_aligned(product.output, product.output_stride, product.output_batch_stride, product.output_dtype) &&
           is_aligned(product.residual, product.residual_stride, 0, DType::fp32);
}

class Event {
public:
    Event() { require(cudaEventCreate(&event_), "making an event"); }
    ~Event() { cudaEventDestroy(event_); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    void record(cudaStream_t stream) { require(cudaEventRecord(event_, stream), "taking a time"); }
    [[nodiscard]] float milliseconds_since(const Event& start) const {
        require(cudaEventSynchronize(event_), "timing a product");
        float result = 0;
        require(cudaEventElapsedTime(&result, start.event_, event_), "timing a product");
        return result;
    }

private:
    cudaEvent_t event_ = nullptr;
};

// Some work as a graph, so that its time is the GPU's and not that of the calls.
class RecordedWork {
public:
    // `work` puts it on the stream, and returns false where that failed.
    RecordedWork(cudaStream_t stream, const std::function<bool()>& work) {
        require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording products");
        const bool is_whole = work();
        cudaGraph_t graph = nullptr;
        const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
        if (is_whole && ended == cudaSuccess && cudaGraphInstantiate(&graph_, graph, 0) != cudaSuccess) {
            graph_ = nullptr;
        }
        if (graph != nullptr) {
            cudaGraphDestroy(graph);
        }
        if (graph_ == nullptr) {
            cudaGetLastError();  // a refusal is no error of the next call
        }
    }
    ~RecordedWork() {
        if (graph_ != nullptr) {
            cudaGraphExecDestroy(graph_);
        }
    }
    RecordedWork(const RecordedWork&) = delete;
    RecordedWork& operator=(const RecordedWork&) = delete;
    [[nodiscard]] bool is_good() const { return graph_ != nullptr; }
    void launch(cudaStream_t stream) const { require(cudaGraphLaunch(graph_, stream), "timing a product"); }

private:
    cudaGraphExec_t graph_ = nullptr;
};

std::string version_text() {
    const size_t version = cublasLtGetVersion();
    return cat("cuBLASLt ", version / 10000, ".", version / 100 % 100, ".", version % 100, " id 66");
}

}  // namespace

Products::Products(std::byte* workspace, int64_t bytes, int architecture, cudaStream_t stream)
    : library_{.handle = nullptr, .workspace = workspace, .workspace_bytes = bytes},
      architecture_(architecture),
      stream_(stream) {
    const cublasStatus_t status = cublasLtCreate(&library_.handle);
    if (status != CUBLAS_STATUS_SUCCESS) {
        throw Error(cat("cuBLASLt does not start: ", cublasLtGetStatusString(status),
                        ". Check the driver with nvidia-smi, or use --set compute.device=cpu."));
    }
}

Products::~Products() {
    cublasLtDestroy(library_.handle);
}

std::string Products::description() {
    const bool bf16 = has_rule(DType::bf16);
    const bool fp16 = has_rule(DType::fp16);
    const std::string library = version_text();
    const std::string own = "own mma";
    return bf16 == fp16 ? (bf16 ? library : own) : cat(bf16 ? library : own, ", fp16 by ", fp16 ? library : own);
}

bool Products::has_rule(DType dtype) {
    if (dtype == DType::fp32 || architecture_ != kRuleArchitecture) {
        return false;
    }
    std::optional<bool>& known = has_rule_.at(static_cast<size_t>(dtype));
    if (!known.has_value()) {
        known = check_rule(dtype);
    }
    return *known;
}

// Where the library refuses an odd edge, a vocabulary of 50,257 words say, it has the rest.
Products::Share Products::library_share(const Product& product) {
    if (!may_be_for_library(product) || architecture_ != kRuleArchitecture) {
        return {};
    }
    ProductShape kind = kind_of(shape_of(product));
    if (!algorithms_of_kind(kind).empty()) {
        return {.rows = product.rows, .columns = product.columns};
    }
    kind.columns = even_part(kind.columns);
    kind.rows = sums_over_rows(kind) ? even_part(kind.rows) : kind.rows;
    if (kind.columns == 0 || kind.rows == 0 || algorithms_of_kind(kind).empty()) {
        return {};
    }
    return {.rows = sums_over_rows(kind) ? kind.rows : product.rows, .columns = kind.columns};
}

const std::vector<Algorithm>& Products::algorithms_of_kind(const ProductShape& kind) {
    const auto found = kinds_.find(kind);
    if (found != kinds_.end()) {
        return found->second;
    }
    std::vector<Algorithm> algorithms;
    if (has_rule(kind.dtype)) {
        algorithms = LibraryProduct(kind).candidates(library_);
    }
    return kinds_.emplace(kind, std::move(algorithms)).first->second;
}

void Products::put(Tape& tape, const Product& product) {
    if (product.rows == 0 || product.columns == 0 || product.batch == 0) {
        return;
    }
    const Share share = library_share(product);
    if (share.columns == 0) {
        put_own_product(tape, product);
        return;
    }
    put_in_library(tape, part_of(product, 0, share.rows, 0, share.columns));
    put_own_product(tape, part_of(product, 0, product.rows, share.columns, product.columns - share.columns));
    put_own_product(tape, part_of(product, share.rows, product.rows - share.rows, 0, share.columns));
}

void Products::put_in_library(Tape& tape, const Product& product) {
    const ProductShape shape = shape_of(product);
    auto found = prepared_.find(shape);
    if (found == prepared_.end()) {
        found = prepared_.emplace(shape, prepare(product)).first;
    }
    Prepared* const prepared = found->second.get();
    if (prepared == nullptr) {
        put_one_by_one(tape, product);
        return;
    }
    struct Identity {
        const Prepared* prepared;
        ProductPlaces places;
    };
    const ProductPlaces places = places_of(product);
    tape.call(
        [this, prepared, places](cudaStream_t stream) {
            const cublasStatus_t status = prepared->product.run(library_, prepared->algorithm, places, stream);
            if (status != CUBLAS_STATUS_SUCCESS) {
                throw Error(cat("cuBLASLt failed in a product of ", text_of(prepared->product.shape()), ": ",
                                cublasLtGetStatusString(status)));
            }
        },
        Identity{.prepared = prepared, .places = places});
}

// The same bits as the batch has, where the library has no algorithm for the whole of it.
void Products::put_one_by_one(Tape& tape, const Product& product) {
    Product one = product;
    one.batch = 1;
    one.left.batch_stride = 0;
    one.right.batch_stride = 0;
    one.output_batch_stride = 0;
    const auto moved = [](const void* place, int64_t elements, DType dtype) {
        return static_cast<const std::byte*>(place) + elements * bytes_of(dtype);
    };
    for (int64_t i = 0; i < product.batch; ++i) {
        one.left.data = moved(product.left.data, i * product.left.batch_stride, product.dtype);
        one.right.data = moved(product.right.data, i * product.right.batch_stride, product.dtype);
        one.output =
            const_cast<std::byte*>(moved(product.output, i * product.output_batch_stride, product.output_dtype));
        put_in_library(tape, one);
    }
}

std::vector<Algorithm> Products::candidates(LibraryProduct& product) {
    std::vector<Algorithm> result = product.candidates(library_);
    if (result.empty()) {  // for a few rows, say, it may prefer others, which have other bits
        for (const Algorithm& algorithm : algorithms_of_kind(kind_of(product.shape()))) {
            if (product.takes(library_, algorithm)) {
                result.push_back(algorithm);
            }
        }
    }
    return result;
}

std::unique_ptr<Products::Prepared> Products::prepare(const Product& product) {
    LibraryProduct described(shape_of(product));
    const ProductShape size_class = size_class_of(described.shape());
    const auto known = chosen_.find(size_class);
    if (known != chosen_.end() && described.takes(library_, known->second)) {
        return std::make_unique<Prepared>(Prepared{.product = described, .algorithm = known->second});
    }
    const std::vector<Algorithm> all = candidates(described);
    if (all.empty() && product.batch > 1) {
        return nullptr;
    }
    if (all.empty()) {
        throw Error(
            cat("cuBLASLt has no algorithm for a product of ", text_of(described.shape()),
                " that keeps the bits of other sizes. This is a fault of the program: please report it with your "
                "run.toml."));
    }
    const Algorithm best = fastest(described, places_of(product), all);
    chosen_.emplace(size_class, best);
    return std::make_unique<Prepared>(Prepared{.product = described, .algorithm = best});
}

Algorithm Products::fastest(LibraryProduct& product, const ProductPlaces& places,
                            const std::vector<Algorithm>& candidates) {
    const bool is_in_place = places.residual != nullptr && places.residual == places.output;
    if (!launch_everything_ || is_in_place || candidates.size() == 1) {
        return candidates.front();
    }
    launch_everything_();
    const Algorithm* best = &candidates.front();
    float best_time = std::numeric_limits<float>::infinity();
    for (const Algorithm& algorithm : candidates) {
        const float time = milliseconds(product, algorithm, places);
        if (time < best_time) {
            best = &algorithm;
            best_time = time;
        }
    }
    return *best;
}

// Infinity for an algorithm that does not run.
float Products::milliseconds(LibraryProduct& product, const Algorithm& algorithm, const ProductPlaces& places) {
    constexpr float kNever = std::numeric_limits<float>::infinity();
    const auto run = [&] { return product.run(library_, algorithm, places, stream_) == CUBLAS_STATUS_SUCCESS; };
    if (!run()) {
        return kNever;
    }
    const ProductShape& shape = product.shape();
    const double flops = 2.0 * static_cast<double>(shape.rows * shape.batch) * static_cast<double>(shape.columns) *
                         static_cast<double>(shape.depth);
    const int runs = flops < kLongFlops ? kShortRuns : kLongRuns;
    const RecordedWork work(stream_, [&] {
        bool is_good = true;
        for (int i = 0; i < runs; ++i) {
            is_good = is_good && run();
        }
        return is_good;
    });
    if (!work.is_good()) {
        return kNever;
    }
    work.launch(stream_);
    float best = kNever;
    Event start;
    Event end;
    for (int i = 0; i < kTimings; ++i) {
        start.record(stream_);
        work.launch(stream_);
        end.record(stream_);
        best = std::min(best, end.milliseconds_since(start));
    }
    return best / static_cast<float>(runs);
}

}  // namespace accrue::cuda
