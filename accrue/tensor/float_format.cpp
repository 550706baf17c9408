#include "accrue/tensor/float_format.h"

#include <cmath>
#include <cstring>

#include "accrue/base/error.h"
#include "accrue/tensor/dtype.h"
#include "accrue/tensor/half.h"

namespace accrue {
namespace {

uint16_t bits_of(float value, FloatFormat format) {
    return format == FloatFormat::bf16 ? Bf16(value).bits : half_of_float(value);
}

float value_of(uint16_t bits, FloatFormat format) {
    if (format == FloatFormat::fp16) {
        return float_of_half(bits);
    }
    Bf16 value;
    value.bits = bits;
    return static_cast<float>(value);
}

[[noreturn]] void complain(float value, size_t place, FloatFormat format, std::string_view tensor) {
    if (!std::isfinite(value)) {
        throw Error(cat("tensor ", tensor, " holds ", value, " at element ", place, ", which no model should hold."));
    }
    throw Error(cat("tensor ", tensor, " holds ", value, " at element ", place, ", which is too large for ",
                    name_of(format), ". Choose ", format == FloatFormat::fp16 ? "bf16 or fp32." : "fp32."));
}

}  // namespace

std::string_view name_of(FloatFormat format) {
    switch (format) {
        case FloatFormat::fp32:
            return "fp32";
        case FloatFormat::bf16:
            return "bf16";
        case FloatFormat::fp16:
            return "fp16";
    }
    return "";
}

std::string_view stored_name_of(FloatFormat format) {
    switch (format) {
        case FloatFormat::fp32:
            return "F32";
        case FloatFormat::bf16:
            return "BF16";
        case FloatFormat::fp16:
            return "F16";
    }
    return "";
}

FloatFormat parse_float_format(std::string_view name) {
    for (const FloatFormat format : {FloatFormat::fp32, FloatFormat::bf16, FloatFormat::fp16}) {
        if (name == name_of(format)) {
            return format;
        }
    }
    throw Error(cat("\"", name, "\" is no number format; choose bf16, fp16 or fp32."));
}

std::vector<std::byte> stored_bytes(std::span<const float> values, FloatFormat format, std::string_view tensor) {
    std::vector<std::byte> bytes(values.size() * static_cast<size_t>(bytes_of(format)));
    for (size_t i = 0; i < values.size(); ++i) {
        if (format == FloatFormat::fp32) {
            if (!std::isfinite(values[i])) {
                complain(values[i], i, format, tensor);
            }
            std::memcpy(&bytes[4 * i], &values[i], 4);
            continue;
        }
        const uint16_t bits = bits_of(values[i], format);
        if (!std::isfinite(value_of(bits, format))) {
            complain(values[i], i, format, tensor);
        }
        std::memcpy(&bytes[2 * i], &bits, 2);
    }
    return bytes;
}

void read_stored(std::span<const std::byte> bytes, FloatFormat format, std::span<float> into) {
    for (size_t i = 0; i < into.size(); ++i) {
        if (format == FloatFormat::fp32) {
            std::memcpy(&into[i], &bytes[4 * i], 4);
            continue;
        }
        uint16_t bits = 0;
        std::memcpy(&bits, &bytes[2 * i], 2);
        into[i] = value_of(bits, format);
    }
}

}  // namespace accrue
