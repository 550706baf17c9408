#include <memory>
#include <vector>

#include "accrue/kernels/cpu/elementwise_plan.h"
#include "accrue/kernels/cpu/product_plan.h"
#include "accrue/kernels/cpu/started.h"
#include "accrue/kernels/device.h"

namespace accrue {
namespace cpu {
namespace {

// Takes and gives back; returns how much.
int64_t use(Arena& arena, int64_t bytes) {
    arena.take(bytes).release();
    return bytes;
}

ProductShape shape_of(int64_t rows, const WeightView& weight) {
    return {.rows = rows, .columns = weight.out(), .depth = weight.in()};
}

// The product that a weight's gradient is.
ProductShape weight_product(const op::LinearBackward& call, size_t grain, const SumView& sum) {
    const bool turned = is_turned(sum.rows, sum.columns, call.d_output.dtype);
    return {.rows = turned ? sum.columns : sum.rows,
            .columns = turned ? sum.rows : sum.columns,
            .depth = call.grains[grain].rows};
}

class CpuWorkspace final : public Workspace {
public:
    explicit CpuWorkspace(int threads) : threads_(threads) {}

    int64_t take(const Operation& operation, Arena& arena) const override {
        return std::visit([&](const auto& call) { return take_for(call, arena); }, operation);
    }

private:
    // What follows takes something; all others take nothing.
    static int64_t take_for(const auto&, Arena&) { return 0; }

    int64_t take_for(const op::Linear& call, Arena& arena) const {
        return use(arena, bytes_of_product(shape_of(call.input.rows, call.weight)));
    }
    int64_t take_for(const op::LinearResidual& call, Arena& arena) const {
        return use(arena, bytes_of_product(shape_of(call.input.rows, call.weight)));
    }
    int64_t take_for(const op::LinearActivation& call, Arena& arena) const { return take_for(call.product(), arena); }
    int64_t take_for(const op::LinearBackward& call, Arena& arena) const;

    static int64_t take_for(const op::RmsNormBackward& call, Arena& arena) {
        return std::max(use_for_columns(arena, call.d_gain), use_for_columns(arena, call.copy_sums));
    }
    static int64_t take_for(const op::LayerNormBackward& call, Arena& arena) {
        return std::max({use_for_columns(arena, call.d_gain), use_for_columns(arena, call.d_bias),
                         use_for_columns(arena, call.copy_sums)});
    }
    static int64_t take_for(const op::GeluGrad& call, Arena& arena) { return use_for_columns(arena, call.d_bias); }
    int64_t take_for(const op::Attention& call, Arena& arena) const {
        return use(arena, attention_workspace_bytes(call.segments.longest, call.shape.head_size, threads_));
    }
    int64_t take_for(const op::AttentionGrad& call, Arena& arena) const {
        return use(arena, attention_grad_workspace_bytes(call.segments.longest, call.shape.head_size, threads_));
    }
    static int64_t take_for(const op::AddLookupGrad& call, Arena& arena) {
        int64_t most = 0;
        for (const op::LookupGrain& grain : call.grains) {
            most = std::max(most, use(arena, lookup_grad_workspace_bytes(grain.index.entries.columns)));
        }
        return most;
    }
    static int64_t take_for(const op::SquaredNorm& call, Arena& arena) {
        int64_t most = 0;
        for (const MeanView& gradient : call.gradients) {
            most = std::max(most, use(arena, squared_norm_workspace_bytes(gradient.elements)));
        }
        return most;
    }
    static int64_t take_for(const op::AddGradient& call, Arena& arena) {
        return use(arena, add_gradient_workspace_bytes(call.sum.elements()));
    }

    static int64_t use_for_columns(Arena& arena, std::span<const SumView> sums) {
        return sums.empty() ? 0 : use(arena, column_sums_workspace_bytes(sums.front().elements()));
    }
    [[nodiscard]] int64_t bytes_of_product(const ProductShape& shape) const {
        return product_workspace_bytes(shape.rows, shape.columns, shape.depth, threads_);
    }

    int threads_;
};

// A weight's gradient that waits for the input's, and what it keeps meanwhile.
struct Waiting {
    const void* added_to;
    Arena::Block scratch;

    [[nodiscard]] const void* sum() const { return added_to; }
};

int64_t CpuWorkspace::take_for(const op::LinearBackward& call, Arena& arena) const {
    int64_t most = 0;
    for_sums(call, [&](size_t grain, const op::LinearSums& sums) {
        if (!sums.bias.empty()) {
            most = std::max(most, use(arena, column_sums_workspace_bytes(sums.bias[grain].elements())));
        }
    });
    std::vector<std::unique_ptr<Waiting>> waiting;
    int64_t kept = 0;
    for_sums(call, [&](size_t grain, const op::LinearSums& sums) {
        if (sums.weight.empty()) {
            return;
        }
        const SumView& sum = sums.weight[grain];
        const int64_t bytes = bytes_of_product(weight_product(call, grain, sum));
        if (!may_wait(call)) {
            most = std::max(most, use(arena, bytes));
            return;
        }
        if (must_run_before(waiting, sum)) {
            waiting.clear();
            kept = 0;
        }
        waiting.push_back(std::make_unique<Waiting>(Waiting{sum.data, arena.take(bytes)}));
        most = std::max(most, kept += bytes);
    });
    if (!call.d_input.empty()) {
        const int64_t bytes =
            bytes_of_product({.rows = call.d_output.rows, .columns = call.weight.in(), .depth = call.weight.out()});
        most = std::max(most, kept + use(arena, bytes));
    }
    return most;
}

}  // namespace
}  // namespace cpu

std::unique_ptr<Workspace> make_cpu_workspace(int threads) {
    return std::make_unique<cpu::CpuWorkspace>(threads);
}

}  // namespace accrue
