#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <cuda_runtime_api.h>

namespace accrue::cuda {

// Pinned host memory that bytes pass through on their way to the device and back: the copy then needs no host to wait.
class Staging {
public:
    explicit Staging(cudaStream_t stream);
    ~Staging();
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;

    // The host's bytes are on their way when it returns, behind everything that is on the stream.
    void upload(std::span<const std::byte> host, std::byte* device);
    // Waits for the stream.
    void download(const std::byte* device, std::span<std::byte> host);

private:
    static constexpr size_t kSlots = 4;
    static constexpr size_t kSlotBytes = size_t{8} << 20;

    // The next slot, once the device has read what was in it.
    void turn();

    cudaStream_t stream_;
    std::byte* memory_ = nullptr;
    std::array<cudaEvent_t, kSlots> read_{};  // when the device has read a slot
    size_t slot_ = 0;
    size_t used_ = 0;  // of the slot
};

}  // namespace accrue::cuda
