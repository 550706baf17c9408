#include "accrue/kernels/device_kind.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "accrue/base/error.h"

namespace accrue {
namespace {

constexpr std::string_view kNumbered = "cuda:";

}  // namespace

std::string text_of(const DeviceName& device) {
    return device.gpu > 0 ? cat(kNumbered, device.gpu) : std::string(word_of(device.kind));
}

std::optional<DeviceName> parse_device(std::string_view text) {
    if (!text.starts_with(kNumbered)) {
        const auto kind = value_of_word<DeviceKind>(text);
        return kind ? std::optional(DeviceName(*kind)) : std::nullopt;
    }
    DeviceName device(DeviceKind::cuda);
    const std::string_view digits = text.substr(kNumbered.size());
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), device.gpu);
    const bool is_number = failure == std::errc() && end == digits.data() + digits.size() && digits.front() != '-';
    return is_number ? std::optional(device) : std::nullopt;
}

DeviceName usual_device() {
    const char* const named = std::getenv(kTestDevice);
    if (named == nullptr) {
        return {};
    }
    const auto device = parse_device(named);
    if (!device) {
        throw Error(cat(kTestDevice, " is \"", named, "\", which is no device."));
    }
    return *device;
}

}  // namespace accrue
