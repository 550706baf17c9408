#include <array>
#include <span>

#include "accrue/kernels/moment_codes.h"
#include "accrue/kernels/reference/element.h"
#include "accrue/kernels/reference/reference_kernels.h"

namespace accrue {
namespace {

using Block = std::array<float, kMomentBlock>;

float largest_of(std::span<const float> values) {
    float largest = 0;
    for (const float value : values) {
        largest = std::fmax(largest, std::abs(value));
    }
    return largest;
}

// Writes the codes of elements first, first + 1, ... and their block's scale.
template <class Encode>
void store_block(std::span<const float> values, int64_t first, const CodedView& moment, const Encode& encode) {
    const float scale = largest_of(values);
    moment.scales[first / kMomentBlock] = scale;
    for (size_t i = 0; i < values.size(); ++i) {
        const int64_t place = first + static_cast<int64_t>(i);
        moment.codes[place] = scale > 0 ? encode(values[i], scale, place) : 0;
    }
}

void store_first(std::span<const float> values, int64_t first, const CodedMoments& moments) {
    store_block(values, first, moments.first, [&](float value, float scale, int64_t place) {
        const uint32_t random = random_bits(moments.rounding_key, static_cast<uint64_t>(place));
        return encoded_first(value, scale, chance_of_first(random));
    });
}

void store_second(std::span<const float> values, int64_t first, const CodedMoments& moments) {
    store_block(values, first, moments.second, [&](float value, float scale, int64_t place) {
        const uint32_t random = random_bits(moments.rounding_key, static_cast<uint64_t>(place));
        return encoded_second(value, scale, chance_of_second(random));
    });
}

}  // namespace

void ReferenceKernels::adamw_8bit(const MeanView& gradient, const AdamWSettings& settings, View<float> weights,
                                  const CodedMoments& moments, AnyView copy) {
    for (int64_t first = 0; first < gradient.elements; first += kMomentBlock) {
        const int64_t count = std::min(kMomentBlock, gradient.elements - first);
        Block m{};
        Block v{};
        for (int64_t i = 0; i < count; ++i) {
            const int64_t block = first / kMomentBlock;
            m[static_cast<size_t>(i)] = decoded_first(moments.first.codes[first + i], moments.first.scales[block]);
            v[static_cast<size_t>(i)] = decoded_second(moments.second.codes[first + i], moments.second.scales[block]);
        }
        MeanView here = gradient;
        here.data = static_cast<const std::byte*>(gradient.data) + first * bytes_of(gradient.kind);
        here.elements = count;
        adamw(here, settings, weights.slice_columns(first, count), View<float>(m.data(), 1, count),
              View<float>(v.data(), 1, count), copy.empty() ? copy : copy.slice_columns(first, count));
        for (float& value : v) {
            value = std::fmin(value, kLargestSecond);
        }
        store_first({m.data(), static_cast<size_t>(count)}, first, moments);
        store_second({v.data(), static_cast<size_t>(count)}, first, moments);
    }
}

void ReferenceKernels::sgd_8bit(const MeanView& gradient, const SgdSettings& settings, View<float> weights,
                                const CodedMoments& moments, AnyView copy) {
    for (int64_t first = 0; first < gradient.elements; first += kMomentBlock) {
        const int64_t count = std::min(kMomentBlock, gradient.elements - first);
        Block velocity{};
        for (int64_t i = 0; i < count; ++i) {
            velocity[static_cast<size_t>(i)] =
                decoded_first(moments.first.codes[first + i], moments.first.scales[first / kMomentBlock]);
        }
        MeanView here = gradient;
        here.data = static_cast<const std::byte*>(gradient.data) + first * bytes_of(gradient.kind);
        here.elements = count;
        sgd(here, settings, weights.slice_columns(first, count), View<float>(velocity.data(), 1, count),
            copy.empty() ? copy : copy.slice_columns(first, count));
        store_first({velocity.data(), static_cast<size_t>(count)}, first, moments);
    }
}

}  // namespace accrue
