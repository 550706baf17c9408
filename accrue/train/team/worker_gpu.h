#pragma once

#include <memory>
#include <string>

#include "accrue/dist/gpu_exchange.h"
#include "accrue/tensor/arena.h"
#include "accrue/train/team/worker_job.h"

namespace accrue {

// A worker's part in the exchange of sums from GPU to GPU. Its memory is taken before the first step, as all that a run needs of
// a GPU, and a mesh that met by it uses it: it must outlive that one.
class WorkerGpu {
public:
    explicit WorkerGpu(const WorkerJob& job);

    // Once in each roster, by all members. How sums are exchanged, for people; "" = there is nothing to say.
    [[nodiscard]] std::string meet(Mesh& mesh, int64_t rank, int64_t size);

private:
    [[nodiscard]] GpuMeeting make_meeting(const WorkerJob& job);

    bool run_is_on_gpus_;
    std::unique_ptr<Arena> arena_;  // of the GPU, where sums are exchanged there
    Arena::Block room_;
    GpuMeeting meeting_;
};

}  // namespace accrue
