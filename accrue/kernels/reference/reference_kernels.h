#pragma once

#include "accrue/kernels/kernels.h"
#include "accrue/kernels/reference/compute.h"

namespace accrue {

// The device that computes by the specification.
class ReferenceKernels final : public Kernels {
public:
    explicit ReferenceKernels(Arena& arena) : arena_(arena) {}

    [[nodiscard]] std::string description() const override { return "reference, plain loops"; }
    [[nodiscard]] Arena& arena() override { return arena_; }

private:
    void compute(const Operation& operation) override {
        std::visit([](const auto& call) { reference::compute(call); }, operation);
    }

    Arena& arena_;
};

}  // namespace accrue
