#include <map>

#include "accrue/kernels/conformance.h"
#include "accrue/kernels/one_by_one.h"

namespace accrue::conformance {
namespace {

constexpr int64_t kPositions = 50;

Outcomes embed(Kernels& kernels, const Case& tried) {
    const Mask mask(tried, 4);
    const std::vector<int32_t> tokens = random_indices(tried, 1, tried.rows, tried.out);
    const std::vector<int32_t> positions = random_indices(tried, 2, tried.rows, kPositions);
    Matrix table = Matrix::random(fixed(tried), DType::fp32, 3, tried.out, tried.in);
    Matrix position_table = Matrix::random(fixed(tried), DType::fp32, 4, kPositions, tried.in);
    Matrix output = Matrix::poison(tried, DType::fp32, tried.rows, tried.in);
    Matrix without_positions = Matrix::poison(tried, DType::fp32, tried.rows, tried.in);
    kernels.run(op::Embed{row_of(tokens), table.floats(), row_of(positions), position_table.floats(), mask.dropout,
                          output.floats()});
    kernels.run(op::Embed{row_of(tokens), table.floats(), {}, {}, mask.dropout, without_positions.floats()});
    return {by_row(tried, "output", output), by_row(tried, "output without positions", without_positions)};
}

// A LookupIndex with its memory.
struct Index {
    std::vector<int32_t> entries;
    std::vector<int32_t> first_place{0};
    std::vector<int32_t> places;

    explicit Index(const std::vector<int32_t>& tokens) {
        std::map<int32_t, std::vector<int32_t>> places_of;
        for (size_t r = 0; r < tokens.size(); ++r) {
            places_of[tokens[r]].push_back(static_cast<int32_t>(r));
        }
        for (const auto& [token, rows] : places_of) {
            entries.push_back(token);
            places.insert(places.end(), rows.begin(), rows.end());
            first_place.push_back(static_cast<int32_t>(places.size()));
        }
    }
    [[nodiscard]] LookupIndex view() const { return {row_of(entries), row_of(first_place), row_of(places)}; }
};

Outcomes add_lookup_grad(Kernels& kernels, const Case& tried) {
    const Index index(random_indices(tried, 1, tried.rows, tried.out));
    Matrix d_output = random_gradient(tried, DType::fp32, 2, tried.rows, tried.in);
    Sum sum(tried, 3, tried.out, tried.in);
    std::vector<int32_t> slots(static_cast<size_t>(tried.out), -1);
    const auto slot_count = static_cast<int64_t>(index.entries.size());
    for (int64_t e = 0; e < slot_count; ++e) {
        slots[static_cast<size_t>(index.entries[static_cast<size_t>(e)])] = static_cast<int32_t>(slot_count - 1 - e);
    }
    Matrix values = Matrix::random(fixed(tried), DType::fp32, 4, slot_count, tried.in);
    const HeldRows held = tried.held ? HeldRows{row_of(slots), values.floats()} : HeldRows{};
    one_by_one::add_lookup_grad(kernels, d_output.floats(), index.view(), held, sum.view());
    Outcomes outcomes;
    append(outcomes, tried, "d_table", sum);
    return outcomes;
}

Outcomes cross_entropy(Kernels& kernels, const Case& tried) {
    std::vector<int32_t> targets = random_indices(tried, 1, tried.rows, tried.out + 1);
    for (int32_t& target : targets) {
        --target;
    }
    Matrix logits = Matrix::random(tried, DType::fp32, 2, tried.rows, tried.out);
    for (int64_t r = 0; r < tried.rows; ++r) {
        for (int64_t c = 0; c < tried.out; ++c) {
            logits.set(r, c, 4 * logits.at(r, c) + static_cast<double>((tried.first_row + r) % 3) * 100);
        }
    }
    Case dense = tried;
    dense.gap = 0;
    dense.integers = false;
    Matrix losses = Matrix::poison(dense, DType::fp32, 1, tried.rows);
    Matrix losses_only = Matrix::poison(dense, DType::fp32, 1, tried.rows);
    Matrix losses_in_place = Matrix::poison(dense, DType::fp32, 1, tried.rows);
    Matrix d_logits = Matrix::poison(tried, tried.output_dtype, tried.rows, tried.out);
    const auto scale = static_cast<float>(tried.loss_scale);
    kernels.run(op::CrossEntropy{logits.floats(), row_of(targets), losses.floats(), d_logits.any(), scale});
    kernels.run(op::CrossEntropy{logits.floats(), row_of(targets), losses_only.floats(), {}});
    kernels.run(op::CrossEntropy{logits.floats(), row_of(targets), losses_in_place.floats(), logits.any(), scale});
    Outcomes outcomes{by_row(dense, "d_logits", d_logits), by_row(dense, "d_logits in place", logits),
                      compared(dense, "losses", losses), compared(dense, "losses only", losses_only),
                      compared(dense, "losses in place", losses_in_place)};
    // Logits of 200 are known to 2^-17 and so are their differences to the logarithm of the sum.
    for (Outcome& outcome : outcomes) {
        outcome.at_least = 0x1p-15 * static_cast<double>(tried.loss_scale);
    }
    for (size_t i = 2; i < outcomes.size(); ++i) {
        outcomes[i].row_columns = 1;
    }
    return outcomes;
}

Outcomes grain_losses(Kernels& kernels, const Case& tried) {
    Case dense = tried;
    dense.gap = 0;
    Matrix losses = Matrix::random(dense, DType::fp32, 1, 1, tried.rows);
    const std::vector<RowRange> grains{{.first = 0, .rows = tried.rows / 3},
                                       {.first = tried.rows / 3, .rows = tried.rows - tried.rows / 3}};
    std::vector<double> sums(2, -1);
    kernels.run(op::GrainLosses{.losses = losses.floats(), .grains = grains, .sums = {sums.data(), 1, 2}});
    return {{.name = "losses of grains", .values = sums, .relative = 1e-12, .at_least = 1e-12}};
}

}  // namespace

std::vector<Operation> table_operations() {
    return {
        {"embed", embed, usual_cases()},
        {"add_lookup_grad", add_lookup_grad, sum_cases()},
        {"cross_entropy", cross_entropy, usual_cases()},
        {"grain_losses", grain_losses, usual_cases()},
    };
}

}  // namespace accrue::conformance
