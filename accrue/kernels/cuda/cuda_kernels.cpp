#include "accrue/kernels/cuda/cuda_kernels.h"

#include <algorithm>
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
// A micro-batch is one tape, so that one graph replays it, unless it has many rows: then so many launches are put on the
// stream together, and the GPU begins while the host prepares the rest.
constexpr int64_t kManyRows = 16384;
constexpr int64_t kLaunchesTogether = 64;

// Whether an operation deals with whole sums, to which totals that are pending belong.
template <class Op>
constexpr bool kIsOfSums =
    std::is_same_v<Op, op::CompleteSums> || std::is_same_v<Op, op::AddSums> || std::is_same_v<Op, op::FillZero> ||
    std::is_same_v<Op, op::SquaredNorm> || std::is_same_v<Op, op::UpdateAdamW> || std::is_same_v<Op, op::UpdateSgd> ||
    std::is_same_v<Op, op::UpdateAdamW8Bit> || std::is_same_v<Op, op::UpdateSgd8Bit>;

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
      totals_memory_(arena.take(cuda::kTotalsBytes)),
      records_memory_(arena.take(cuda::kRecordBytes)),
      staging_(stream_.stream),
      products_(std::make_unique<cuda::Products>(
          library_.data(), library_.bytes(),
          10 * attribute(gpu, cudaDevAttrComputeCapabilityMajor) + attribute(gpu, cudaDevAttrComputeCapabilityMinor),
          stream_.stream)),
      cudnn_(10 * attribute(gpu, cudaDevAttrComputeCapabilityMajor) +
             attribute(gpu, cudaDevAttrComputeCapabilityMinor)),
      tape_(constants_.data(), constants_.bytes()),
      totals_(totals_memory_.data(), totals_memory_.bytes()),
      records_(records_memory_.data(), records_memory_.bytes()),
      context_{.tape = tape_,
               .products = *products_,
               .cudnn = cudnn_,
               .architecture = 10 * attribute(gpu, cudaDevAttrComputeCapabilityMajor) +
                               attribute(gpu, cudaDevAttrComputeCapabilityMinor),
               .multiprocessors = attribute(gpu, cudaDevAttrMultiProcessorCount),
               .shared_bytes = attribute(gpu, cudaDevAttrMaxSharedMemoryPerBlockOptin),
               .waiting = waiting_,
               .totals = totals_,
               .records = records_,
               .arena = arena} {
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
    finish_tape();
    return cat("sm_", context_.architecture, ", ", products_->description(), ", ",
               cuda::attention_description(context_));
}

void CudaKernels::submit() {
    const std::lock_guard lock(mutex_);
    finish_tape();
}

// Totals become gradients, whose statistics become part of records.
void CudaKernels::flush_pending() {
    totals_.flush(context_);
    records_.flush(context_);
}

void CudaKernels::finish_tape() {
    flush_pending();
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
    if constexpr (std::is_same_v<Op, op::Embed>) {
        has_many_rows_ = call.output.rows >= kManyRows;
    }
    if constexpr (kIsOfSums<Op>) {
        flush_pending();
    }
    if constexpr (std::is_same_v<Op, op::CompleteSums>) {
        cuda::lower(context_, call, cuda::Scratch(call.memory.data()));
    } else {
        const int64_t bytes = cuda::scratch_bytes(call, context_.architecture);
        const Arena::Block scratch = bytes > 0 ? arena_.take(bytes) : Arena::Block();
        cuda::lower(context_, call, cuda::Scratch(bytes > 0 ? scratch.data() : nullptr));
    }
    if (waits_ || is_watched()) {
        finish_tape();
        require(cudaStreamSynchronize(stream_.stream), cat("computing ", Op::kName));
    } else if (has_many_rows_ && tape_.size() >= kLaunchesTogether) {
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

// What lies on the host needs no way there, only that the GPU has done with it.
void CudaKernels::upload(const op::Upload& call) {
    if (!arena_.is_on_host(call.device.data())) {
        staging_.upload(call.host, call.device.data());
        return;
    }
    require(cudaStreamSynchronize(stream_.stream), "computing");
    std::ranges::copy(call.host, call.device.begin());
}

void CudaKernels::download(const op::Download& call) {
    if (!arena_.is_on_host(call.device.data())) {
        staging_.download(call.device.data(), call.host);
        return;
    }
    require(cudaStreamSynchronize(stream_.stream), "computing");
    std::ranges::copy(call.device, call.host.begin());
}

void CudaKernels::compute(const Operation& operation) {
    const std::lock_guard lock(mutex_);
    require(cudaSetDevice(gpu_), "beginning");
    std::visit(
        [this](const auto& call) {
            using Op = std::remove_cvref_t<decltype(call)>;
            if constexpr (std::is_same_v<Op, op::Upload>) {
                finish_tape();
                upload(call);
            } else if constexpr (std::is_same_v<Op, op::Download>) {
                finish_tape();
                download(call);
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
