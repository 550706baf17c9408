#include "accrue/kernels/operation/optimizer.h"

namespace accrue::op {
namespace {

void check_update(std::string_view operation, const MeanView& gradient, View<const float> weights,
                  const AnyConstView& copy) {
    require_equal(operation, "elements of the gradient", gradient.elements, weights.columns);
    if (!copy.empty()) {
        require_equal(operation, "elements of the copy", copy.columns, weights.columns);
    }
}

int64_t bytes_in(const MeanView& gradient) {
    return gradient.elements * bytes_of(gradient.kind);
}

// The gradient is read; weights and both moments are read and written; the copy is written.
void count_update(WorkByPart& work, const MeanView& gradient, int64_t bytes_of_state, const AnyConstView& copy) {
    work.add(Part::optimizer, 0, bytes_in(gradient) + 2 * gradient.elements * bytes_of_state + op::bytes_in(copy));
}

}  // namespace

void SquaredNorm::check() const {
    require_equal(kName, "results", result.elements(), 1);
}

void SquaredNorm::count(WorkByPart& work) const {
    for (const MeanView& gradient : gradients) {
        work.add(part(), 0, bytes_in(gradient));
    }
}

void UpdateAdamW::check() const {
    check_update(kName, gradient, weights, copy);
    require_equal(kName, "elements of the first moment", first_moment.columns, weights.columns);
    require_equal(kName, "elements of the second moment", second_moment.columns, weights.columns);
}

void UpdateAdamW::count(WorkByPart& work) const {
    count_update(work, gradient, 4 + 4 + 4, copy);
}

void UpdateSgd::check() const {
    check_update(kName, gradient, weights, copy);
    if (!velocity.empty()) {
        require_equal(kName, "elements of the velocity", velocity.columns, weights.columns);
    }
}

void UpdateSgd::count(WorkByPart& work) const {
    count_update(work, gradient, velocity.empty() ? 4 : 4 + 4, copy);
}

void UpdateAdamW8Bit::check() const {
    check_update(kName, gradient, weights, copy);
}

void UpdateAdamW8Bit::count(WorkByPart& work) const {
    count_update(work, gradient, 4 + 1 + 1, copy);
}

void UpdateSgd8Bit::check() const {
    check_update(kName, gradient, weights, copy);
}

void UpdateSgd8Bit::count(WorkByPart& work) const {
    count_update(work, gradient, 4 + 1, copy);
}

}  // namespace accrue::op
