#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/accumulate/gradient_sum.h"
#include "accrue/kernels/kernels.h"

namespace accrue {

// One tensor as the optimizer sees it.
struct OptimizedTensor {
    int64_t offset = 0;
    int64_t elements = 0;
    bool decays = false;  // parameters with two or more dimensions do
};

// The weights an optimizer writes: fp32 master, and where products read bf16, their copy. Both flat.
struct WeightBuffers {
    View<float> master;
    AnyView copy;  // empty in fp32
};

// What changes from step to step.
struct UpdateSettings {
    double rate = 0;
    double beta2 = 0;  // AdamW only
};

// Turns a mean gradient into new weights, in place, tensor by tensor; no gradient-sized buffer of its own.
class Optimizer {
public:
    virtual ~Optimizer() = default;

    virtual void update(const MeanGradient& gradient, const UpdateSettings& settings, const WeightBuffers& weights) = 0;

    // A flat fp32 buffer that belongs to the optimizer's state, laid out like the weights.
    struct Moment {
        std::string name;
        View<float> values;
    };
    [[nodiscard]] virtual std::vector<Moment> moments() = 0;

    // The numbers that belong to its state, besides the moments.
    struct Counters {
        int64_t updates = 0;     // applied steps; skipped windows do not count
        double beta1_power = 1;  // product of all beta1 so far
        double beta2_power = 1;

        bool operator==(const Counters&) const = default;
    };
    [[nodiscard]] const Counters& counters() const { return counters_; }
    void restore(const Counters& counters) { counters_ = counters; }

protected:
    Counters counters_;
};

}  // namespace accrue
