#include "accrue/model/decoder/rope_table.h"

#include <cmath>
#include <numbers>

namespace accrue {

double rope_frequency(const RopeConfig& rope, int64_t head_size, int64_t pair) {
    const double plain = std::pow(rope.theta, -2.0 * static_cast<double>(pair) / static_cast<double>(head_size));
    if (rope.kind == RopeConfig::Kind::linear) {
        return plain / rope.factor;
    }
    if (rope.kind != RopeConfig::Kind::llama3) {
        return plain;
    }
    // Llama 3.1: short waves stay, waves longer than the original context are stretched, those between are blended.
    const double wavelength = 2.0 * std::numbers::pi / plain;
    const auto original = static_cast<double>(rope.original_positions);
    if (wavelength < original / rope.high_frequency) {
        return plain;
    }
    if (wavelength > original / rope.low_frequency) {
        return plain / rope.factor;
    }
    const double blend = (original / wavelength - rope.low_frequency) / (rope.high_frequency - rope.low_frequency);
    return (1.0 - blend) * plain / rope.factor + blend * plain;
}

std::vector<float> rope_table(const RopeConfig& rope, int64_t head_size, int64_t positions) {
    const int64_t pairs = head_size / 2;
    std::vector<float> table(static_cast<size_t>(positions * head_size));
    for (int64_t pair = 0; pair < pairs; ++pair) {
        const double frequency = rope_frequency(rope, head_size, pair);
        for (int64_t position = 0; position < positions; ++position) {
            const double angle = frequency * static_cast<double>(position);
            table[static_cast<size_t>(position * head_size + pair)] = static_cast<float>(std::cos(angle));
            table[static_cast<size_t>(position * head_size + pairs + pair)] = static_cast<float>(std::sin(angle));
        }
    }
    return table;
}

}  // namespace accrue
