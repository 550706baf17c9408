#include "accrue/model/head.h"

#include <algorithm>
#include <numeric>

namespace accrue {
namespace {

// Rows of logits at a time: 512 x 50,304 words take 103 MB in fp32. The head's weights are packed once for each.
constexpr int64_t kLogitRows = 512;

// A vector of one value per row, as the loss takes it.
template <class T>
View<T> some_of(View<T> values, int64_t first, int64_t count) {
    return {values.data + first, 1, count};
}

}  // namespace

Lookup::Lookup(std::span<const int32_t> ids) : Lookup(ids, ids) {}

Lookup::Lookup(std::span<const int32_t> ids, std::span<const int32_t> also)
    : entries(also.begin(), also.end()), places(ids.size()) {
    std::sort(entries.begin(), entries.end());
    entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
    const auto id_of = [&](int32_t place) { return ids[static_cast<size_t>(place)]; };
    std::iota(places.begin(), places.end(), 0);
    std::stable_sort(places.begin(), places.end(), [&](int32_t a, int32_t b) { return id_of(a) < id_of(b); });
    size_t next = 0;
    for (const int32_t entry : entries) {
        first_place.push_back(static_cast<int32_t>(next));
        while (next < places.size() && id_of(places[next]) == entry) {
            ++next;
        }
    }
    first_place.push_back(static_cast<int32_t>(next));
}

HeldEmbedding::HeldEmbedding(Arena& arena, const Lookup& lookup, int64_t slots, int64_t vocabulary, int64_t width)
    : slot_of_row(static_cast<size_t>(vocabulary), -1), values(take_matrix<float>(arena, slots, width)) {
    for (size_t slot = 0; slot < lookup.entries.size(); ++slot) {
        slot_of_row[static_cast<size_t>(lookup.entries[slot])] = static_cast<int32_t>(slot);
    }
}

void head_forward_backward(const Pass& pass, const LinearParameters& head, AnyConstView input,
                           View<const int32_t> targets, std::span<const HeldEmbedding> held, View<float> losses,
                           View<float> d_input) {
    Kernels& kernels = pass.kernels;
    const WeightView weight = pass.weight_of(head);
    for (size_t grain = 0; grain < pass.grains.size(); ++grain) {
        const auto& [number, range] = pass.grains[grain];
        const AnyConstView rows = input.slice_rows(range.first, range.rows);
        const LeasedAny d_logits = take_any_matrix(kernels.arena(), input.dtype, range.rows, head.out);
        {
            const Leased<float> logits =
                take_matrix<float>(kernels.arena(), std::min(kLogitRows, range.rows), head.out);
            for (int64_t first = 0; first < range.rows; first += kLogitRows) {
                const int64_t count = std::min(kLogitRows, range.rows - first);
                const View<float> some = logits.view.slice_rows(0, count);
                kernels.linear(rows.slice_rows(first, count), weight, {}, some);
                kernels.cross_entropy(some, some_of(targets, range.first + first, count),
                                      some_of(losses, range.first + first, count),
                                      d_logits.view.slice_rows(first, count));
            }
        }
        kernels.add_linear_weight_grad(d_logits.view, rows, head.layout,
                                       pass.sink->sum_of(number, head.parts.front().weight),
                                       held.empty() ? HeldRows{} : held[grain].rows());
        kernels.linear_input_grad(d_logits.view, weight, d_input.slice_rows(range.first, range.rows));
    }
}

void head_losses(const Pass& pass, const LinearParameters& head, AnyConstView input, View<const int32_t> targets,
                 View<float> losses) {
    const Leased<float> logits = take_matrix<float>(pass.kernels.arena(), std::min(kLogitRows, input.rows), head.out);
    for (int64_t first = 0; first < input.rows; first += kLogitRows) {
        const int64_t count = std::min(kLogitRows, input.rows - first);
        const View<float> some = logits.view.slice_rows(0, count);
        pass.kernels.linear(input.slice_rows(first, count), pass.weight_of(head), {}, some);
        pass.kernels.cross_entropy(some, some_of(targets, first, count), some_of(losses, first, count), {});
    }
}

}  // namespace accrue
