#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/accumulate/element_ranges.h"
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

// Which moments are kept here. Workers may share them out: each then has places for a few of the ranges into which all are cut.
struct MomentShare {
    std::vector<ElementRange> ranges = {};  // none = one of everything
    int64_t places = 1;
};

// What of a tensor is kept, and where it lies among the elements and among the scales that are kept.
struct KeptPiece {
    TensorPiece of;
    int64_t range = 0;
    int64_t element = 0;
    int64_t scale = 0;
};

// The moments that are kept here, by their places: each holds one range, or none.
class KeptMoments {
public:
    // The first ranges are kept in the first places.
    KeptMoments(const std::vector<OptimizedTensor>& tensors, int64_t flat_elements, MomentShare share);

    // Ranges by place; kNone = none. What lies in a place stays as it is: of a range that is new there, it is of no use.
    static constexpr int64_t kNone = -1;
    void keep(std::vector<int64_t> by_place);
    [[nodiscard]] std::span<const int64_t> by_place() const { return by_place_; }
    // Place by place, ascending in each.
    [[nodiscard]] std::span<const KeptPiece> pieces() const { return pieces_; }
    [[nodiscard]] std::span<const ElementRange> ranges() const { return share_.ranges; }
    // Tensor by tensor, whoever keeps it.
    [[nodiscard]] std::vector<TensorPiece> pieces_of(int64_t range) const {
        return pieces_in(tensors_, share_.ranges[static_cast<size_t>(range)]);
    }
    // That all places together have room for.
    [[nodiscard]] int64_t elements() const { return share_.places * place_elements_; }
    [[nodiscard]] int64_t scales() const { return share_.places * place_scales_; }

private:
    std::vector<FlatTensor> tensors_;
    MomentShare share_;
    int64_t place_elements_ = 0;
    int64_t place_scales_ = 0;
    std::vector<int64_t> by_place_;
    std::vector<KeptPiece> pieces_;
};

// One moment as a checkpoint keeps it: for each tensor its values or codes, and with codes their scales. Where workers share the
// moments out, what is kept of it here.
struct StoredMoment {
    struct Part {
        int64_t tensor = 0;
        std::string_view suffix;  // after the tensor's name: "", or ".scales"
        std::string_view dtype;   // as safetensors calls it
        std::span<std::byte> device_bytes;
        int64_t offset = 0;  // of these bytes, in the tensor's
        int64_t range = 0;   // in which they lie
    };
    std::string name;
    MomentFormat format = MomentFormat::fp32;
    std::vector<Part> parts;
};

// Bytes of a tensor's piece in one moment, as its parts lie one behind another.
[[nodiscard]] constexpr int64_t bytes_of(MomentFormat format, const TensorPiece& piece) {
    return format == MomentFormat::fp32 ? piece.count * 4 : piece.count + moment_blocks(piece.count) * 4;
}

// One moment of all tensors, or of those that are kept, 0 at first. Its memory comes from `memory` (the arena of the kernels, or
// the piece of it that lies on the host) and is laid out like the gradients; scales lie by themselves, tensor after tensor, so
// that blocks begin at a tensor's first element.
class MomentBuffer {
public:
    MomentBuffer(MomentFormat format, const KeptMoments& kept, Kernels& kernels, Arena& memory);

    // The moment of a piece: the one of the two that the format has.
    [[nodiscard]] View<float> values_of(const KeptPiece& piece) const;
    [[nodiscard]] CodedView codes_of(const KeptPiece& piece) const;

    [[nodiscard]] StoredMoment stored(std::string name, const KeptMoments& kept) const;

private:
    MomentFormat format_;
    Arena::Block elements_;  // floats or codes
    Arena::Block scales_;
};

}  // namespace accrue
