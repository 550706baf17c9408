#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "accrue/base/words.h"

namespace accrue {

// The kinds of devices there are. To add one: its folder, a word here, and a line in each function of device.cpp.
enum class DeviceKind {
    cpu,
    reference,  // slow and plain: the specification of the others
    cuda,       // an NVIDIA GPU
};

[[nodiscard]] constexpr auto words_for(DeviceKind) {
    return std::to_array<Word<DeviceKind>>(
        {{"cpu", DeviceKind::cpu}, {"reference", DeviceKind::reference}, {"cuda", DeviceKind::cuda}});
}

// One device of a machine: "cpu", "reference", "cuda" (the first GPU), "cuda:1".
struct DeviceName {
    DeviceKind kind = DeviceKind::cpu;
    int gpu = 0;

    DeviceName() = default;
    DeviceName(DeviceKind kind_, int gpu_ = 0) : kind(kind_), gpu(gpu_) {}  // a kind alone is its first device

    bool operator==(const DeviceName&) const = default;
};

[[nodiscard]] std::string text_of(const DeviceName& device);
[[nodiscard]] std::optional<DeviceName> parse_device(std::string_view text);

// For tests: the device of runs that name none.
inline constexpr const char* kTestDevice = "ACCRUE_TEST_DEVICE";
// What is taken where no device is named and nobody looks for GPUs: the processor, or what ACCRUE_TEST_DEVICE names.
[[nodiscard]] DeviceName usual_device();

}  // namespace accrue
