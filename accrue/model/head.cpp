#include "accrue/model/head.h"

#include <algorithm>
#include <numeric>

namespace accrue {
namespace {

// A vector of one value per row, as the loss takes it.
template <class T>
View<T> some_of(View<T> values, int64_t first, int64_t count) {
    return {values.data + first, 1, count};
}

HeadRows some_of(const HeadRows& rows, int64_t first, int64_t count) {
    return {.input = rows.input.slice_rows(first, count),
            .targets = some_of(rows.targets, first, count),
            .losses = some_of(rows.losses, first, count)};
}

// Columns of a matrix of logits in memory: rows begin at whole cache lines, so that products can read them where they lie
// (a vocabulary of odd size would otherwise be packed first) and no store touches two lines.
int64_t room_for(int64_t vocabulary) {
    constexpr int64_t kUnit = 32;
    return (vocabulary + kUnit - 1) / kUnit * kUnit;
}

// The losses of all rows and, where d_logits is not empty, their gradients. In fp32 these are the logits' own memory.
void run_loss(const Pass& pass, const LinearParameters& head, const HeadRows& rows, int64_t loss_rows,
              AnyView d_logits) {
    const bool in_place = !d_logits.empty() && d_logits.dtype == DType::fp32;
    Leased<float> logits;
    if (!in_place) {
        logits = take_matrix<float>(pass.kernels.arena(), std::min(loss_rows, rows.input.rows), room_for(head.out));
    }
    for (int64_t first = 0; first < rows.input.rows; first += loss_rows) {
        const int64_t count = std::min(loss_rows, rows.input.rows - first);
        const HeadRows some = some_of(rows, first, count);
        const AnyView d_some = d_logits.empty() ? AnyView{} : d_logits.slice_rows(first, count);
        const View<float> here =
            in_place ? d_some.as<float>() : logits.view.slice_rows(0, count).slice_columns(0, head.out);
        pass.kernels.linear(some.input, pass.weight_of(head), {}, here);
        pass.kernels.cross_entropy(here, some.targets, some.losses, d_some);
    }
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

void head_forward_backward(const Pass& pass, const LinearParameters& head, const HeadRows& rows, int64_t loss_rows,
                           std::span<const HeldEmbedding> held, View<float> d_input) {
    Kernels& kernels = pass.kernels;
    for (size_t grain = 0; grain < pass.grains.size(); ++grain) {
        const auto& [number, range] = pass.grains[grain];
        const HeadRows some = some_of(rows, range.first, range.rows);
        const LeasedAny memory = take_any_matrix(kernels.arena(), some.input.dtype, range.rows, room_for(head.out));
        const AnyView d_logits = memory.view.slice_columns(0, head.out);
        run_loss(pass, head, some, loss_rows, d_logits);
        kernels.add_linear_weight_grad(d_logits, some.input, head.layout,
                                       pass.sink->sum_of(number, head.parts.front().weight),
                                       held.empty() ? HeldRows{} : held[grain].rows());
        kernels.linear_input_grad(d_logits, pass.weight_of(head), d_input.slice_rows(range.first, range.rows));
    }
}

void head_losses(const Pass& pass, const LinearParameters& head, const HeadRows& rows, int64_t loss_rows) {
    run_loss(pass, head, rows, loss_rows, {});
}

}  // namespace accrue
