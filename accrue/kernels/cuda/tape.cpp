#include "accrue/kernels/cuda/tape.h"

#include <array>
#include <map>

#include "accrue/base/error.h"
#include "accrue/kernels/cuda/cuda_error.h"

namespace accrue::cuda {
namespace {

constexpr size_t kArgsAlignment = 16;
constexpr size_t kConstantAlignment = 256;
constexpr uint32_t kSharedWithoutAsking = 48 * 1024;

size_t rounded_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

struct Filled {
    void* memory;
    int64_t bytes;
};
struct Copied {
    void* to;
    const void* from;
    int64_t bytes;
};

// A kernel must be allowed once to use more shared memory than the usual.
void allow_shared_memory(const void* kernel, uint32_t bytes) {
    static thread_local std::map<const void*, uint32_t> allowed;
    uint32_t& most = allowed[kernel];
    if (bytes > most) {
        require(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
                "asking for shared memory");
        most = bytes;
    }
}

}  // namespace

template <class T>
size_t Tape::note(std::span<const T> values) {
    const size_t place = rounded_up(identity_.size(), kArgsAlignment);
    const auto bytes = std::as_bytes(values);
    identity_.resize(place);
    identity_.insert(identity_.end(), bytes.begin(), bytes.end());
    return place;
}

void Tape::add_launch(const void* kernel, const Shape& shape, std::span<const std::byte> args) {
    const std::array<uint64_t, 4> what = {reinterpret_cast<uint64_t>(kernel),
                                          shape.blocks.x | (uint64_t{shape.blocks.y} << 32),
                                          shape.blocks.z | (uint64_t{shape.threads} << 32), shape.shared_bytes};
    note(std::span<const uint64_t>(what));
    launches_.push_back({.kernel = kernel, .shape = shape, .args = note(args)});
}

void Tape::call(std::function<void(cudaStream_t)> run, std::span<const std::byte> identity) {
    const std::array<uint64_t, 2> what = {0, identity.size()};
    note(std::span<const uint64_t>(what));
    launches_.push_back({.args = note(identity), .run = std::move(run)});
}

void Tape::fill_zero(void* memory, int64_t bytes) {
    if (bytes > 0) {
        call(
            [memory, bytes](cudaStream_t stream) {
                require(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), stream), "filling memory");
            },
            Filled{.memory = memory, .bytes = bytes});
    }
}

void Tape::copy(void* to, const void* from, int64_t bytes) {
    if (bytes > 0) {
        call(
            [to, from, bytes](cudaStream_t stream) {
                require(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream),
                        "copying memory");
            },
            Copied{.to = to, .from = from, .bytes = bytes});
    }
}

const std::byte* Tape::add_constant(std::span<const std::byte> bytes) {
    const size_t place = rounded_up(constants_.size(), kConstantAlignment);
    if (static_cast<int64_t>(place + bytes.size()) > capacity_) {
        throw Error(cat("an operation needs ", bytes.size(), " bytes of tables beside ", place,
                        " that are waiting, and the GPU's room for them is ", capacity_,
                        " bytes. This is a fault of the program: please report it with your run.toml."));
    }
    constants_.resize(place);
    constants_.insert(constants_.end(), bytes.begin(), bytes.end());
    return device_constants_ + place;
}

void Tape::run(cudaStream_t stream) const {
    for (const Launch& launch : launches_) {
        if (launch.kernel == nullptr) {
            launch.run(stream);
            continue;
        }
        if (launch.shape.shared_bytes > kSharedWithoutAsking) {
            allow_shared_memory(launch.kernel, launch.shape.shared_bytes);
        }
        void* args[] = {const_cast<std::byte*>(identity_.data() + launch.args)};
        require(cudaLaunchKernel(launch.kernel, launch.shape.blocks, dim3(launch.shape.threads), args,
                                 launch.shape.shared_bytes, stream),
                "starting a kernel");
    }
}

void Tape::clear() {
    launches_.clear();
    identity_.clear();
    constants_.clear();
}

}  // namespace accrue::cuda
