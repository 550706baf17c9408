#pragma once

#include <cstdint>
#include <vector>

#include "accrue/accumulate/gradient_sum.h"
#include "accrue/base/random.h"
#include "accrue/base/random_key.h"
#include "accrue/kernels/kernels.h"
#include "accrue/optim/moments.h"

namespace accrue {

// The weights an optimizer writes: fp32 master, and where products read bf16, their copy. Both flat. Where workers share them, the
// master holds what is read in fp32, and of all else only what is kept here is there, in the places of the moments.
struct WeightBuffers {
    View<float> master;
    AnyView copy;           // empty in fp32
    View<float> kept = {};  // empty = the master holds all
    std::span<const int64_t> places =
        {};  // where each trained tensor begins in the master: -1 = not there; empty = at its offset

    [[nodiscard]] bool is_in_kept(int64_t tensor) const { return place_of(tensor, 0) < 0; }
    // In the master, of a tensor that has this offset.
    [[nodiscard]] int64_t place_of(int64_t tensor, int64_t offset) const {
        return places.empty() ? offset : places[static_cast<size_t>(tensor)];
    }
};

// What changes from step to step.
struct UpdateSettings {
    double rate = 0;
    double beta2 = 0;  // AdamW only
};

// Turns a mean gradient into new weights, in place, tensor by tensor; no gradient-sized buffer of its own. Where workers share the
// moments out, it renews the weights of those that are kept here, with the bits that they would have anyway.
class Optimizer {
public:
    explicit Optimizer(KeptMoments kept) : kept_(std::move(kept)) {}
    virtual ~Optimizer() = default;

    virtual void update(const MeanGradient& gradient, const UpdateSettings& settings, const WeightBuffers& weights) = 0;

    // Its state as a checkpoint keeps it, to be written and to be filled again.
    [[nodiscard]] virtual std::vector<StoredMoment> moments() = 0;

    // The numbers that belong to its state, besides the moments.
    struct Counters {
        int64_t updates = 0;     // applied steps; skipped windows do not count
        double beta1_power = 1;  // product of all beta1 so far
        double beta2_power = 1;

        bool operator==(const Counters&) const = default;
    };
    [[nodiscard]] const Counters& counters() const { return counters_; }
    void restore(const Counters& counters) { counters_ = counters; }

    // Whose moments are kept here.
    [[nodiscard]] KeptMoments& kept() { return kept_; }
    [[nodiscard]] const KeptMoments& kept() const { return kept_; }

protected:
    // What the rounding of a piece's moments in this update depends on, besides its element.
    [[nodiscard]] uint64_t rounding_key(uint64_t seed, const TensorPiece& piece) const {
        return key_from(mix(seed, static_cast<uint64_t>(counters_.updates), static_cast<uint64_t>(piece.tensor)),
                        piece.first);
    }

    Counters counters_;
    KeptMoments kept_;
};

// What an update reads and writes of a piece of a tensor.
[[nodiscard]] inline MeanView mean_of(const MeanGradient& gradient, const TensorPiece& piece) {
    MeanView mean = gradient.of(piece.tensor);
    mean.data = static_cast<const std::byte*>(mean.data) + piece.first * bytes_of(mean.kind);
    mean.elements = piece.count;
    return mean;
}
struct PieceWeights {
    View<float> master;
    AnyView copy;
};
[[nodiscard]] inline PieceWeights weights_of(const WeightBuffers& weights, const OptimizedTensor& tensor,
                                             const KeptPiece& piece) {
    const auto& [number, first, count] = piece.of;
    const AnyView copy = weights.copy.empty() ? AnyView() : weights.copy.slice_columns(tensor.offset + first, count);
    if (weights.is_in_kept(number)) {
        return {.master = weights.kept.slice_columns(piece.element, count), .copy = copy};
    }
    const int64_t place = weights.place_of(number, tensor.offset) + first;
    return {.master = weights.master.slice_columns(place, count), .copy = copy};
}

}  // namespace accrue
