#pragma once

#include <cstddef>
#include <span>

#include "accrue/kernels/operation/basics.h"

namespace accrue::op {

// output = dropout(input), rounded to the output's dtype.
struct Cast {
    static constexpr std::string_view kName = "cast";
    View<const float> input;
    Dropout dropout;
    AnyView output;

    [[nodiscard]] static Part part() { return Part::elementwise; }
    void check() const;
    void count(WorkByPart& work) const;
};

struct FillZero {
    static constexpr std::string_view kName = "fill_zero";
    std::span<std::byte> memory;

    [[nodiscard]] static Part part() { return Part::elementwise; }
    void check() const {}
    void count(WorkByPart& work) const;
};

// The device's bytes become the host's.
// This and Download may be called by any thread, also while an operation runs that has nothing to do with these bytes.
struct Upload {
    static constexpr std::string_view kName = "upload";
    std::span<const std::byte> host;
    std::span<std::byte> device;

    [[nodiscard]] static Part part() { return Part::elementwise; }
    void check() const;
    void count(WorkByPart& work) const;
};

// The host gets the device's bytes, as they are after everything that was asked before; waits for it.
struct Download {
    static constexpr std::string_view kName = "download";
    std::span<const std::byte> device;
    std::span<std::byte> host;

    [[nodiscard]] static Part part() { return Part::elementwise; }
    void check() const;
    void count(WorkByPart& work) const;
};

// sum += values, as the gradient of one grain: each value is rounded once to the sum's unit. For gradients that come from
// elsewhere, and for a device that adds later.
struct AddGradient {
    static constexpr std::string_view kName = "add_gradient";
    View<const float> values;  // like the sum, without gaps
    SumView sum;

    [[nodiscard]] static Part part() { return Part::elementwise; }
    void check() const;
    void count(WorkByPart& work) const;
};

// sums[i] += others[i], modulo 2^64: exact sums of another part of the window.
struct AddSums {
    static constexpr std::string_view kName = "add_sums";
    View<const int64_t> others;  // [1, n]
    View<int64_t> sums;          // [1, n]

    [[nodiscard]] static Part part() { return Part::elementwise; }
    void check() const;
    void count(WorkByPart& work) const;
};

// All sums and records that earlier operations add to are complete after it, but for those whose gradients wait elsewhere than
// in `waiting`: whoever gave them their places asks for them.
struct CompleteSums {
    static constexpr std::string_view kName = "complete_sums";
    std::span<std::byte> waiting = {};  // on the device: the places of gradients (SumView::waiting)
    std::span<std::byte> memory = {};   // on the device, as its traits ask for those gradients (waiting_tile_bytes)

    [[nodiscard]] static Part part() { return Part::products_weight; }
    void check() const {}
    void count(WorkByPart&) const {}
};

}  // namespace accrue::op
