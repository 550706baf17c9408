#pragma once

#include <memory>
#include <vector>

#include "accrue/kernels/device.h"

namespace accrue {

// Computes nothing and never touches the memory of a view, but takes from its arena what a device would take, in the same
// order, and counts the work. A step that is run on it tells what the real one will need.
class DryKernels final : public Kernels {
public:
    // In place of the device that this is the workspace of.
    DryKernels(Arena& arena, std::unique_ptr<Workspace> workspace);

    [[nodiscard]] std::string description() const override { return "dry, counts only"; }
    [[nodiscard]] Arena& arena() override { return arena_; }
    [[nodiscard]] DeviceTraits traits() const override { return workspace_->traits(); }

    // Since the last restart. Floating-point operations are those of products and attention; all else is not counted,
    // because memory and not arithmetic sets its time.
    [[nodiscard]] const WorkByPart& work() const { return work_; }

    // What the arena held at some points of a step since the last restart.
    struct ArenaProfile {
        std::vector<int64_t> at_attention;  // when attention ran forward, before the loss: one for each block
        int64_t before_loss = 0;            // when the last norm before the loss head ran
        int64_t at_loss = 0;                // when the first product of the loss head ran
        int64_t at_loss_peak = 0;           // the most while the loss head ran
        int64_t largest_workspace = 0;      // that the device took for itself in one operation
    };
    [[nodiscard]] const ArenaProfile& arena_profile() const { return profile_; }
    void restart();

private:
    void compute(const Operation& operation) override;
    void profile(const Operation& operation);

    Arena& arena_;
    std::unique_ptr<Workspace> workspace_;
    Arena::Block kept_;  // what the device keeps for itself
    WorkByPart work_{};
    ArenaProfile profile_;
};

// Stands in for that device with so many threads.
[[nodiscard]] std::unique_ptr<DryKernels> make_dry_kernels(Arena& arena, const DeviceChoice& device, int threads);

}  // namespace accrue
