#include "accrue/kernels/dry/dry_kernels.h"

#include <algorithm>

namespace accrue {

DryKernels::DryKernels(Arena& arena, std::unique_ptr<Workspace> workspace)
    : arena_(arena), workspace_(std::move(workspace)) {
    if (workspace_->kept_bytes() > 0) {
        kept_ = arena_.take(workspace_->kept_bytes());
    }
}

void DryKernels::restart() {
    work_ = {};
    profile_ = {};
}

void DryKernels::compute(const Operation& operation) {
    std::visit([this](const auto& call) { call.count(work_); }, operation);
    profile_.largest_workspace = std::max(profile_.largest_workspace, workspace_->take(operation, arena_));
    profile(operation);
}

void DryKernels::profile(const Operation& operation) {
    const Part part = std::visit([](const auto& call) { return call.part(); }, operation);
    const int64_t now = arena_.bytes_in_use();
    if (part == Part::loss_head) {
        profile_.at_loss = profile_.at_loss > 0 ? profile_.at_loss : now;
        profile_.at_loss_peak = std::max(profile_.at_loss_peak, now);
    } else if (profile_.at_loss > 0) {
        return;
    } else if (part == Part::norms) {
        profile_.before_loss = now;
    } else if (std::holds_alternative<op::Attention>(operation)) {
        profile_.at_attention.push_back(now);
    }
}

std::unique_ptr<DryKernels> make_dry_kernels(Arena& arena, const DeviceChoice& device, int threads) {
    return std::make_unique<DryKernels>(arena, make_workspace(device, threads));
}

}  // namespace accrue
