#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace accrue {

// The unit of each tensor's exact sum: 2^exponent. Chosen from the largest |grain gradient| of the last applied step,
// which is the same for everybody because a maximum has no order.
class Units {
public:
    // How many binary digits a tensor's largest grain gradient gets: its error is at most 2^-39 of itself, and 2^24
    // grains fit.
    static constexpr int kDigits = 38;
    // A window whose sum might reach 2^62 units is replayed with units this many binary digits coarser.
    static constexpr int kReplayDigits = 16;

    Units() = default;
    explicit Units(std::vector<int32_t> exponents) : exponents_(std::move(exponents)) {}

    // From the first grain that counts anything. A tensor whose largest is 0 takes the unit of the largest tensor.
    [[nodiscard]] static Units first(std::span<const float> largest);
    // After an applied step. A tensor whose largest is 0 keeps its unit.
    [[nodiscard]] Units next(std::span<const float> largest) const;
    // The tensors whose sums of so many grains might not fit.
    [[nodiscard]] std::vector<int64_t> overflowing(std::span<const float> largest, int64_t grains) const;
    // These tensors' units, coarser by kReplayDigits.
    [[nodiscard]] Units coarser(std::span<const int64_t> tensors) const;

    [[nodiscard]] double unit(int64_t tensor) const { return std::ldexp(1.0, exponents_[static_cast<size_t>(tensor)]); }
    [[nodiscard]] double per_unit(int64_t tensor) const {
        return std::ldexp(1.0, -exponents_[static_cast<size_t>(tensor)]);
    }
    [[nodiscard]] bool empty() const { return exponents_.empty(); }
    [[nodiscard]] const std::vector<int32_t>& exponents() const { return exponents_; }

    bool operator==(const Units&) const = default;

private:
    std::vector<int32_t> exponents_;
};

}  // namespace accrue
