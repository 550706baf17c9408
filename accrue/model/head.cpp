#include "accrue/model/head.h"

#include <algorithm>

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

// Where logits lie: in the place of their gradients, or in memory of their own for some rows at a time.
class LogitRows {
public:
    LogitRows(Kernels& kernels, const LinearParameters& head, const HeadRows& rows, int64_t loss_rows, AnyView d_logits)
        : d_logits_(d_logits), at_once_(loss_rows), columns_(head.out) {
        const DeviceTraits traits = kernels.traits();
        const DType dtype = traits.has_narrow_logits ? rows.input.dtype : DType::fp32;
        in_place_ = !d_logits.empty() && d_logits.dtype == dtype;
        if (in_place_ && traits.has_narrow_logits) {
            at_once_ = std::max(loss_rows, traits.loss_rows);
        }
        if (!in_place_) {
            own_ = take_any_matrix(kernels.arena(), dtype, std::min(loss_rows, rows.input.rows), room_for(head.out));
        }
    }
    [[nodiscard]] int64_t at_once() const { return at_once_; }
    [[nodiscard]] AnyView of(int64_t first, int64_t count) const {
        return in_place_ ? d_logits_.slice_rows(first, count)
                         : own_.view.slice_rows(0, count).slice_columns(0, columns_);
    }

private:
    AnyView d_logits_;
    int64_t at_once_;
    int64_t columns_;
    bool in_place_ = false;
    LeasedAny own_;
};

// The losses of all rows and, where d_logits is not empty, their gradients.
void run_loss(const Pass& pass, const LinearParameters& head, const HeadRows& rows, int64_t loss_rows,
              AnyView d_logits) {
    const LogitRows logits(pass.kernels, head, rows, loss_rows, d_logits);
    for (int64_t first = 0; first < rows.input.rows; first += logits.at_once()) {
        const int64_t count = std::min(logits.at_once(), rows.input.rows - first);
        const HeadRows some = some_of(rows, first, count);
        const AnyView here = logits.of(first, count);
        pass.kernels.run(op::Linear{.input = some.input,
                                    .weight = pass.weight_of(head),
                                    .bias = {},
                                    .output = here,
                                    .of = op::ProductOf::head});
        pass.kernels.run(
            op::CrossEntropy{.logits = here,
                             .targets = some.targets,
                             .losses = some.losses,
                             .d_logits = d_logits.empty() ? AnyView{} : d_logits.slice_rows(first, count),
                             .scale = d_logits.empty() ? 1.0F : static_cast<float>(pass.sink->loss_scale())});
    }
}

}  // namespace

void head_forward_backward(const Pass& pass, const LinearParameters& head, const HeadRows& rows, int64_t loss_rows,
                           std::span<const HeldRows> held, View<float> d_input) {
    Kernels& kernels = pass.kernels;
    const std::vector<SumView> sums = pass.sums_of(head.parts.front().weight);
    for (size_t grain = 0; grain < pass.grain_rows.size(); ++grain) {
        const RowRange& range = pass.grain_rows[grain];
        const RowRange all{.first = 0, .rows = range.rows};
        const HeadRows some = some_of(rows, range.first, range.rows);
        const LeasedAny memory = take_any_matrix(kernels.arena(), some.input.dtype, range.rows, room_for(head.out));
        const AnyView d_logits = memory.view.slice_columns(0, head.out);
        run_loss(pass, head, some, loss_rows, d_logits);
        const op::LinearSums of_weight{
            .first_output = 0,
            .outputs = head.out,
            .weight = sums.empty() ? std::span<const SumView>() : std::span(sums).subspan(grain, 1)};
        kernels.run(op::LinearBackward{.d_output = d_logits,
                                       .input = some.input,
                                       .weight = pass.weight_of(head),
                                       .d_input = d_input.slice_rows(range.first, range.rows),
                                       .grains = std::span(&all, 1),
                                       .sums = std::span(&of_weight, 1),
                                       .held = held.empty() ? held : held.subspan(grain, 1),
                                       .of = op::ProductOf::head});
    }
}

void head_losses(const Pass& pass, const LinearParameters& head, const HeadRows& rows, int64_t loss_rows) {
    run_loss(pass, head, rows, loss_rows, {});
}

}  // namespace accrue
