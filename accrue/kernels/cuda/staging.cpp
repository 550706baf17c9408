#include "accrue/kernels/cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "accrue/kernels/cuda/cuda_error.h"

namespace accrue::cuda {

Staging::Staging(cudaStream_t stream) : stream_(stream) {
    require(cudaMallocHost(reinterpret_cast<void**>(&memory_), kSlots * kSlotBytes), "taking pinned host memory");
    for (cudaEvent_t& event : read_) {
        require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "preparing transfers");
    }
}

Staging::~Staging() {
    cudaStreamSynchronize(stream_);
    for (const cudaEvent_t event : read_) {
        cudaEventDestroy(event);
    }
    cudaFreeHost(memory_);
}

void Staging::turn() {
    require(cudaEventRecord(read_[slot_], stream_), "uploading");
    slot_ = (slot_ + 1) % kSlots;
    used_ = 0;
    require(cudaEventSynchronize(read_[slot_]), "uploading");
}

void Staging::upload(std::span<const std::byte> host, std::byte* device) {
    constexpr size_t kAlignment = 64;
    while (!host.empty()) {
        if (used_ == kSlotBytes) {
            turn();
        }
        const size_t bytes = std::min(host.size(), kSlotBytes - used_);
        std::byte* const place = memory_ + slot_ * kSlotBytes + used_;
        std::memcpy(place, host.data(), bytes);
        require(cudaMemcpyAsync(device, place, bytes, cudaMemcpyHostToDevice, stream_), "uploading");
        used_ = std::min(kSlotBytes, (used_ + bytes + kAlignment - 1) / kAlignment * kAlignment);
        host = host.subspan(bytes);
        device += bytes;
    }
}

void Staging::download(const std::byte* device, std::span<std::byte> host) {
    turn();
    std::byte* const place = memory_ + slot_ * kSlotBytes;
    while (!host.empty()) {
        const size_t bytes = std::min(host.size(), kSlotBytes);
        require(cudaMemcpyAsync(place, device, bytes, cudaMemcpyDeviceToHost, stream_), "downloading");
        require(cudaStreamSynchronize(stream_), "computing");
        std::memcpy(host.data(), place, bytes);
        host = host.subspan(bytes);
        device += bytes;
    }
}

}  // namespace accrue::cuda
