#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "accrue/kernels/device_kind.h"

namespace accrue {

// What --device takes: the words of compute.device.
[[nodiscard]] inline CLI::Validator device_or_auto() {
    const auto fault = [](const std::string& text) {
        return text == "auto" || parse_device(text) ? "" : "must be auto, cpu, cuda or cuda:N, but is " + text;
    };
    return {fault, "DEVICE"};
}

// The device that such a word names; nothing for auto.
[[nodiscard]] inline std::optional<DeviceName> asked_device(const std::string& word) {
    return word == "auto" ? std::nullopt : parse_device(word);
}

}  // namespace accrue
