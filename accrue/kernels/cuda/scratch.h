#pragma once

#include <cstddef>
#include <cstdint>

namespace accrue::cuda {

// The memory that an operation takes for itself, cut into pieces. Made from nothing it counts: the same cuts give the bytes
// that a real one needs, so that a plan and a run cannot differ.
class Scratch {
public:
    static constexpr int64_t kAlignment = 256;

    Scratch() = default;
    explicit Scratch(std::byte* memory) : memory_(memory) {}

    // Room for so many values; their address is meaningless while counting.
    template <class T>
    T* take(int64_t count) {
        const int64_t place = bytes_;
        bytes_ += (count * static_cast<int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
        return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(memory_) + static_cast<uintptr_t>(place));
    }
    [[nodiscard]] int64_t bytes() const { return bytes_; }
    // For pieces that are needed one after another, in the same place: back to where it was.
    void rewind(int64_t bytes) { bytes_ = bytes; }

private:
    std::byte* memory_ = nullptr;
    int64_t bytes_ = 0;
};

}  // namespace accrue::cuda
