#pragma once

#include <memory>
#include <string>

#include "accrue/kernels/cuda/scratch.h"
#include "accrue/kernels/operation/attention.h"

namespace accrue::cuda {

struct Context;

// Attention by cuDNN, where the table in cudnn_plan.h has it and the library is there in a release whose bits are known.
// Kernels are compiled by the library when a number of segments comes for the first time, which takes about a second.
class CudnnAttention {
public:
    // The library is looked for when a call comes that it could be for. `architecture`: 90 = sm_90.
    explicit CudnnAttention(int architecture);
    ~CudnnAttention();
    CudnnAttention(const CudnnAttention&) = delete;
    CudnnAttention& operator=(const CudnnAttention&) = delete;

    // The same answer for all calls of a run that differ by their segments only.
    [[nodiscard]] bool computes(const op::Attention& call);
    [[nodiscard]] bool computes(const op::AttentionGrad& call);

    // Put a call on the tape that it computes. `scratch`: take_cudnn_scratch.
    void put(Context& context, const op::Attention& call, Scratch scratch);
    void put(Context& context, const op::AttentionGrad& call, Scratch scratch);

    // "cuDNN 9.19.0 eng2_k24=7 eng6_k24=26": the release and the kernels in use so far; empty where it computes nothing.
    [[nodiscard]] std::string description() const;
    // Why the library is not used though the table has it for this GPU; empty where it is, or was not looked for.
    [[nodiscard]] const std::string& why_not() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace accrue::cuda
