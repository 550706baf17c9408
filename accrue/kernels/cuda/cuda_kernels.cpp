#include "accrue/kernels/cuda/cuda_kernels.h"

#include <cstdlib>
#include <string_view>

#include "accrue/kernels/cuda/cuda_error.h"
#include "accrue/kernels/cuda/cuda_traits.h"
#include "accrue/kernels/cuda/products.h"
#include "accrue/kernels/device.h"

namespace accrue {
namespace {

using cuda::require;

// More tables than this wait for no further operation: what is left must hold those of any single one.
constexpr int64_t kConstantsThatWait = cuda::kConstantBytes / 4;
// So many launches are put on the stream together: enough that a graph gains, few enough that the GPU begins a large
// micro-batch while the host prepares the rest of it.
constexpr int64_t kLaunchesTogether = 64;

int attribute(int gpu, cudaDeviceAttr what) {
    int value = 0;
    require(cudaDeviceGetAttribute(&value, what, gpu), "asking what it can do");
    return value;
}

bool is_set(const char* variable, std::string_view value) {
    const char* const found = std::getenv(variable);
    return found != nullptr && found == value;
}

}  // namespace

CudaKernels::Stream::Stream() {
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
}

CudaKernels::Stream::~Stream() {
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
}

CudaKernels::CudaKernels(int gpu, Arena& arena, DeviceChoice::Graphs graphs)
    : gpu_((require(cudaSetDevice(gpu), "beginning"), gpu)),
      arena_(arena),
      waits_(is_set("ACCRUE_TEST_CUDA_WAIT", "1")),
      has_graphs_(graphs == DeviceChoice::Graphs::replayed && !is_set("ACCRUE_TEST_CUDA_GRAPHS", "0")),
      constants_(arena.take(cuda::kConstantBytes)),
      library_(arena.take(cuda::kLibraryBytes)),
      staging_(stream_.stream),
      products_(std::make_unique<cuda::Products>(
          library_.data(), library_.bytes(),
          10 * attribute(gpu, cudaDevAttrComputeCapabilityMajor) + attribute(gpu, cudaDevAttrComputeCapabilityMinor),
          stream_.stream)),
      cudnn_(10 * attribute(gpu, cudaDevAttrComputeCapabilityMajor) +
             attribute(gpu, cudaDevAttrComputeCapabilityMinor)),
      tape_(constants_.data(), constants_.bytes()),
      context_{.tape = tape_,
               .products = *products_,
               .cudnn = cudnn_,
               .architecture = 10 * attribute(gpu, cudaDevAttrComputeCapabilityMajor) +
                               attribute(gpu, cudaDevAttrComputeCapabilityMinor),
               .multiprocessors = attribute(gpu, cudaDevAttrMultiProcessorCount),
               .shared_bytes = attribute(gpu, cudaDevAttrMaxSharedMemoryPerBlockOptin),
               .waiting = waiting_} {
    products_->before_timing([this] { run_tape(); });
}

CudaKernels::~CudaKernels() {
    cudaSetDevice(gpu_);
    cudaStreamSynchronize(stream_.stream);
}

std::string CudaKernels::description() const {
    cudaDeviceProp properties{};
    require(cudaGetDeviceProperties(&properties, gpu_), "asking for its name");
    return cat("cuda:", gpu_, ", ", properties.name);
}

DeviceTraits CudaKernels::traits() const {
    return cuda::traits();
}

std::string CudaKernels::numerics() {
    const std::lock_guard lock(mutex_);
    run_tape();
    return cat("sm_", context_.architecture, ", ", products_->description(), ", ",
               cuda::attention_description(context_));
}

void CudaKernels::submit() {
    const std::lock_guard lock(mutex_);
    run_tape();
}

void CudaKernels::run_tape() {
    if (tape_.empty()) {
        return;
    }
    require(cudaSetDevice(gpu_), "beginning");
    staging_.upload(tape_.constants(), tape_.device_constants());
    if (has_graphs_) {
        graphs_.run(tape_, stream_.stream);
    } else {
        tape_.run(stream_.stream);
    }
    tape_.clear();
}

template <class Op>
void CudaKernels::put_on_tape(const Op& call) {
    if (std::ssize(tape_.constants()) > kConstantsThatWait) {
        run_tape();
    }
    if constexpr (std::is_same_v<Op, op::CompleteSums>) {
        cuda::lower(context_, call, cuda::Scratch(call.memory.data()));
    } else {
        const int64_t bytes = cuda::scratch_bytes(call, context_.architecture);
        const Arena::Block scratch = bytes > 0 ? arena_.take(bytes) : Arena::Block();
        cuda::lower(context_, call, cuda::Scratch(bytes > 0 ? scratch.data() : nullptr));
    }
    if (waits_ || is_watched()) {
        run_tape();
        require(cudaStreamSynchronize(stream_.stream), cat("computing ", Op::kName));
    } else if (tape_.size() >= kLaunchesTogether) {
        run_tape();
    }
}

// One after another, so that a watch sees how long each takes.
void CudaKernels::put_in_laps(const op::LinearBackward& call) {
    op::LinearBackward only = call;
    only.d_input = {};
    put_on_tape(only);
    lap({call.weight_part()});
    only = call;
    only.sums = {};
    only.held = {};
    if (!call.d_input.empty()) {
        put_on_tape(only);
        lap({call.part()});
    }
}

void CudaKernels::compute(const Operation& operation) {
    const std::lock_guard lock(mutex_);
    require(cudaSetDevice(gpu_), "beginning");
    std::visit(
        [this](const auto& call) {
            using Op = std::remove_cvref_t<decltype(call)>;
            if constexpr (std::is_same_v<Op, op::Upload>) {
                run_tape();
                staging_.upload(call.host, call.device.data());
            } else if constexpr (std::is_same_v<Op, op::Download>) {
                run_tape();
                staging_.download(call.device.data(), call.host);
            } else if constexpr (std::is_same_v<Op, op::LinearBackward>) {
                is_watched() ? put_in_laps(call) : put_on_tape(call);
            } else {
                put_on_tape(call);
            }
        },
        operation);
}

std::unique_ptr<Kernels> make_cuda_kernels(int gpu, Arena& arena, DeviceChoice::Graphs graphs) {
    return std::make_unique<CudaKernels>(gpu, arena, graphs);
}

}  // namespace accrue
