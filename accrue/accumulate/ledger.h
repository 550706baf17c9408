#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "accrue/kernels/sum_view.h"

namespace accrue {

// What is known of each grain of a window besides its gradient: loss, count, and each tensor's record. Reading it goes
// in grain order, so nothing depends on the order in which grains were finished.
class GrainLedger {
public:
    GrainLedger() = default;
    GrainLedger(int64_t grains, int64_t tensors);

    struct Grain {
        bool finished = false;
        double loss_sum = 0;
        int64_t counted_tokens = 0;

        bool operator==(const Grain&) const = default;
    };

    [[nodiscard]] int64_t grains() const { return static_cast<int64_t>(grains_.size()); }
    [[nodiscard]] int64_t tensors() const { return tensors_; }
    [[nodiscard]] Grain& grain(int64_t number) { return grains_[static_cast<size_t>(number)]; }
    [[nodiscard]] const Grain& grain(int64_t number) const { return grains_[static_cast<size_t>(number)]; }
    [[nodiscard]] GrainRecord& record(int64_t grain, int64_t tensor);
    [[nodiscard]] const GrainRecord& record(int64_t grain, int64_t tensor) const;

    // Grains not finished yet, ascending.
    [[nodiscard]] std::vector<int64_t> missing() const;
    [[nodiscard]] int64_t finished() const;
    [[nodiscard]] double loss_sum() const;
    [[nodiscard]] int64_t counted_tokens() const;
    // Each tensor's largest |grain gradient|.
    [[nodiscard]] std::vector<float> largest() const;
    // The squared norm of one grain's gradient, over all tensors.
    [[nodiscard]] double squares(int64_t grain) const;

    struct Place {
        int64_t grain = 0;
        int64_t tensor = 0;
    };
    // The lowest grain, and its first tensor, with a NaN or an infinity.
    [[nodiscard]] std::optional<Place> first_bad() const;

    // Takes over the finished grains of another ledger of the same window. No grain may be finished in both.
    void add(const GrainLedger& other);

    // The finished grains as bytes, for a checkpoint and for other workers, and back. An error if the bytes are damaged or
    // belong to a window of other grains or tensors.
    [[nodiscard]] std::vector<std::byte> to_bytes() const;
    [[nodiscard]] static GrainLedger from_bytes(std::span<const std::byte> bytes, int64_t grains, int64_t tensors);

    bool operator==(const GrainLedger&) const = default;

private:
    int64_t tensors_ = 0;
    std::vector<Grain> grains_;
    std::vector<GrainRecord> records_;
};

}  // namespace accrue
