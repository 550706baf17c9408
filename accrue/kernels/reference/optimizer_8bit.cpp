#include <array>
#include <span>

#include "accrue/kernels/moment_codes.h"
#include "accrue/kernels/reference/compute.h"
#include "accrue/kernels/reference/element.h"

namespace accrue::reference {
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

void compute(const op::UpdateAdamW8Bit& call) {
    for (int64_t first = 0; first < call.gradient.elements; first += kMomentBlock) {
        const int64_t count = std::min(kMomentBlock, call.gradient.elements - first);
        Block m{};
        Block v{};
        for (int64_t i = 0; i < count; ++i) {
            const int64_t block = first / kMomentBlock;
            m[static_cast<size_t>(i)] =
                decoded_first(call.moments.first.codes[first + i], call.moments.first.scales[block]);
            v[static_cast<size_t>(i)] =
                decoded_second(call.moments.second.codes[first + i], call.moments.second.scales[block]);
        }
        MeanView here = call.gradient;
        here.data = static_cast<const std::byte*>(call.gradient.data) + first * bytes_of(call.gradient.kind);
        here.elements = count;
        compute(op::UpdateAdamW{.gradient = here,
                                .settings = call.settings,
                                .weights = call.weights.slice_columns(first, count),
                                .first_moment = View<float>(m.data(), 1, count),
                                .second_moment = View<float>(v.data(), 1, count),
                                .copy = call.copy.empty() ? call.copy : call.copy.slice_columns(first, count)});
        for (float& value : v) {
            value = std::fmin(value, kLargestSecond);
        }
        store_first({m.data(), static_cast<size_t>(count)}, first, call.moments);
        store_second({v.data(), static_cast<size_t>(count)}, first, call.moments);
    }
}

void compute(const op::UpdateSgd8Bit& call) {
    for (int64_t first = 0; first < call.gradient.elements; first += kMomentBlock) {
        const int64_t count = std::min(kMomentBlock, call.gradient.elements - first);
        Block velocity{};
        for (int64_t i = 0; i < count; ++i) {
            velocity[static_cast<size_t>(i)] =
                decoded_first(call.moments.first.codes[first + i], call.moments.first.scales[first / kMomentBlock]);
        }
        MeanView here = call.gradient;
        here.data = static_cast<const std::byte*>(call.gradient.data) + first * bytes_of(call.gradient.kind);
        here.elements = count;
        compute(op::UpdateSgd{.gradient = here,
                              .settings = call.settings,
                              .weights = call.weights.slice_columns(first, count),
                              .velocity = View<float>(velocity.data(), 1, count),
                              .copy = call.copy.empty() ? call.copy : call.copy.slice_columns(first, count)});
        store_first({velocity.data(), static_cast<size_t>(count)}, first, call.moments);
    }
}

}  // namespace accrue::reference
