#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/kernels/kernels.h"

namespace accrue {

// One tensor as the optimizer sees it.
struct OptimizedTensor {
    int64_t offset = 0;         // among the weights
    int64_t moment_offset = 0;  // among the moments, which only trained tensors have
    int64_t elements = 0;
    bool decays = false;  // parameters with two or more dimensions do
};

// The number format of an optimizer's state.
enum class MomentFormat {
    fp32,
    eight_bits,  // kernels/moment_codes.h; 1 + 4 / 128 bytes for each element
};

// One moment as a checkpoint keeps it: for each tensor its values or codes, and with codes their scales.
struct StoredMoment {
    struct Part {
        int64_t tensor = 0;
        std::string_view suffix;  // after the tensor's name: "", or ".scales"
        std::string_view dtype;   // as safetensors calls it
        std::span<std::byte> device_bytes;
    };
    std::string name;
    std::vector<Part> parts;
};

// One moment of all tensors, 0 at first. Its memory comes from `memory` (the arena of the kernels, or the piece of it that
// lies on the host) and is laid out like the gradients; scales lie by themselves, tensor after tensor, so that blocks begin
// at a tensor's first element.
class MomentBuffer {
public:
    MomentBuffer(MomentFormat format, std::vector<OptimizedTensor> tensors, int64_t flat_elements, Kernels& kernels,
                 Arena& memory);

    // A tensor's moment: the one of the two that the format has.
    [[nodiscard]] View<float> values_of(size_t tensor) const;
    [[nodiscard]] CodedView codes_of(size_t tensor) const;

    [[nodiscard]] StoredMoment stored(std::string name) const;

private:
    MomentFormat format_;
    std::vector<OptimizedTensor> tensors_;
    std::vector<int64_t> first_block_;  // of each tensor, among all scales
    Arena::Block elements_;             // floats or codes
    Arena::Block scales_;
};

}  // namespace accrue
