#pragma once

#include <cstdint>
#include <vector>

#include "accrue/accumulate/gradient_sum.h"
#include "accrue/base/random.h"
#include "accrue/kernels/kernels.h"
#include "accrue/optim/moments.h"

namespace accrue {

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

    // Its state as a checkpoint keeps it, to be written and to be filled again.
    [[nodiscard]] virtual std::vector<StoredMoment> moments() = 0;

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
    // What the rounding of a tensor's moments in this update depends on, besides the element.
    [[nodiscard]] uint64_t rounding_key(uint64_t seed, size_t tensor) const {
        return mix(seed, static_cast<uint64_t>(counters_.updates), static_cast<uint64_t>(tensor));
    }

    Counters counters_;
};

}  // namespace accrue
