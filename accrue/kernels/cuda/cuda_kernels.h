#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "accrue/kernels/cuda/column_totals.h"
#include "accrue/kernels/cuda/context.h"
#include "accrue/kernels/cuda/cudnn_attention.h"
#include "accrue/kernels/cuda/graphs.h"
#include "accrue/kernels/cuda/pending_records.h"
#include "accrue/kernels/cuda/staging.h"
#include "accrue/kernels/device.h"
#include "accrue/kernels/kernels.h"

namespace accrue {

// An NVIDIA GPU: operations are put on a tape, and what is on it runs when it is submitted, or when somebody wants bytes
// back. One stream, so that everything happens in the order in which it was asked.
class CudaKernels final : public Kernels {
public:
    // The arena must lie on that GPU, but for its piece on the host, and outlive it.
    CudaKernels(int gpu, Arena& arena, DeviceChoice::Graphs graphs);
    ~CudaKernels() override;
    CudaKernels(const CudaKernels&) = delete;
    CudaKernels& operator=(const CudaKernels&) = delete;

    [[nodiscard]] std::string description() const override;
    [[nodiscard]] Arena& arena() override { return arena_; }
    [[nodiscard]] DeviceTraits traits() const override;
    [[nodiscard]] std::string numerics() override;
    void submit() override;

private:
    struct Stream {
        Stream();
        ~Stream();
        cudaStream_t stream = nullptr;
    };

    void compute(const Operation& operation) override;
    template <class Op>
    void put_on_tape(const Op& call);
    void put_in_laps(const op::LinearBackward& call);
    void run_tape();
    void flush_pending();
    void finish_tape();  // with all that is pending
    void upload(const op::Upload& call);
    void download(const op::Download& call);

    int gpu_;
    Arena& arena_;
    bool waits_ = false;  // for each operation: for tests
    bool has_graphs_ = true;
    bool has_many_rows_ = false;  // the micro-batch that is put on tapes
    std::mutex mutex_;            // transfers may be asked for by any thread
    Stream stream_;
    Arena::Block constants_;
    Arena::Block library_;  // the matrix library's workspace
    Arena::Block totals_memory_;
    Arena::Block records_memory_;
    cuda::Staging staging_;
    std::unique_ptr<cuda::Products> products_;
    cuda::CudnnAttention cudnn_;
    std::vector<cuda::GrainGradient> waiting_;
    cuda::Tape tape_;
    cuda::PendingTotals totals_;
    cuda::PendingRecords records_;
    cuda::Graphs graphs_;
    cuda::Context context_;
};

}  // namespace accrue
