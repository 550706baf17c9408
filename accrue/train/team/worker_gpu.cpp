#include "accrue/train/team/worker_gpu.h"

#include <cstdlib>

#include "accrue/kernels/gpu_checks.h"
#include "accrue/kernels/gpus.h"
#include "accrue/train/engine.h"
#include "accrue/train/team/gpu_share.h"

namespace accrue {

WorkerGpu::WorkerGpu(const WorkerJob& job) : run_is_on_gpus_(job.computes_on_gpus), meeting_(make_meeting(job)) {}

GpuMeeting WorkerGpu::make_meeting(const WorkerJob& job) {
    const DeviceChoice device = device_of(job.settings.compute);
    if (!job.exchanges_on_gpu || device.name.kind != DeviceKind::cuda) {
        return GpuMeeting();
    }
    const int64_t bytes = gpu_exchange_room_of(*job.model);
    arena_ = std::make_unique<Arena>(make_backing(device, bytes));
    room_ = arena_->take(bytes);
    MemberGpu mine;
    mine.number = device.name.gpu;
    mine.memory = {room_.data(), static_cast<size_t>(bytes)};
    mine.check = {.parts = kGpuCheckParts, .enqueue = enqueue_gpu_check};
    mine.may_be_shared = std::getenv(kTestSharedNccl) != nullptr;
    return GpuMeeting(std::move(mine));
}

std::string WorkerGpu::meet(Mesh& mesh, int64_t rank, int64_t size) {
    return run_is_on_gpus_ ? meeting_.meet(mesh, rank, size) : "";
}

}  // namespace accrue
