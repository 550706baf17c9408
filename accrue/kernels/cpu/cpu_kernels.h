#pragma once

#include "accrue/kernels/cpu/instruction_set.h"
#include "accrue/kernels/kernels.h"

namespace accrue {

// Threads and vector instructions: every operation by what cpu/linear.h and cpu/elementwise.h offer. Computes no fp16, and so
// knows no loss scale: CrossEntropy::scale and SumView::unscale must be 1.
class CpuKernels final : public Kernels {
public:
    // The pool and the arena must outlive it.
    CpuKernels(Pool& pool, Arena& arena, cpu::InstructionSet set) : context_{pool, arena, set} {}

    [[nodiscard]] std::string description() const override;
    [[nodiscard]] Arena& arena() override { return context_.arena; }

private:
    void compute(const Operation& operation) override;
    void linear_backward(const op::LinearBackward& call);

    cpu::Context context_;
};

}  // namespace accrue
