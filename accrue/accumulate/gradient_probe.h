#pragma once

#include <optional>
#include <vector>

#include "accrue/accumulate/record_table.h"

namespace accrue {

// Measures gradients without adding them: the first grain of a run, from which the first units come.
class GradientProbe final : public GradientSink {
public:
    struct Shape {
        int64_t rows = 0;
        int64_t columns = 0;
    };
    GradientProbe(std::vector<Shape> tensors, int64_t grains, Kernels& kernels, int64_t loss_scale = 1);

    void begin(std::span<const Grain> grains) override;
    [[nodiscard]] int64_t loss_scale() const override { return loss_scale_; }
    [[nodiscard]] SumView sum_of(int64_t grain, int64_t tensor) override;
    [[nodiscard]] View<double> loss_sums() override { return records_->loss_sums(); }
    void end() override;
    [[nodiscard]] const GrainLedger& ledger() const { return ledger_; }

private:
    std::vector<Shape> tensors_;
    Kernels& kernels_;
    int64_t loss_scale_;
    std::optional<RecordTable> records_;  // of the micro-batch that has begun
    GrainLedger ledger_;
};

}  // namespace accrue
