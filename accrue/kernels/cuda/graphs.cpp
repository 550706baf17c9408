#include "accrue/kernels/cuda/graphs.h"

#include <algorithm>

#include <xxhash.h>

#include "accrue/kernels/cuda/cuda_error.h"

namespace accrue::cuda {
namespace {

// Fewer launches gain nothing.
constexpr int64_t kLeastLaunches = 8;
// Micro-batches differ by where their gradients wait, by their sizes where samples are ragged: more kinds than this are not
// worth their memory.
constexpr size_t kMostGraphs = 192;

cudaGraphExec_t captured(const Tape& tape, cudaStream_t stream) {
    require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording a graph");
    cudaGraph_t graph = nullptr;
    try {
        tape.run(stream);
    } catch (...) {
        cudaStreamEndCapture(stream, &graph);
        throw;
    }
    require(cudaStreamEndCapture(stream, &graph), "recording a graph");
    cudaGraphExec_t result = nullptr;
    const cudaError_t made = cudaGraphInstantiate(&result, graph, 0);
    cudaGraphDestroy(graph);
    require(made, "making a graph");
    return result;
}

}  // namespace

Graphs::~Graphs() {
    for (const Known& known : known_) {
        if (known.graph != nullptr) {
            cudaGraphExecDestroy(known.graph);
        }
    }
}

Graphs::Known& Graphs::find(const Tape& tape) {
    const XXH128_hash_t hash = XXH3_128bits(tape.identity().data(), tape.identity().size());
    const auto found = std::ranges::find_if(
        known_, [&](const Known& known) { return known.key[0] == hash.low64 && known.key[1] == hash.high64; });
    if (found != known_.end()) {
        known_.splice(known_.begin(), known_, found);
        return known_.front();
    }
    if (known_.size() == kMostGraphs) {
        if (known_.back().graph != nullptr) {
            cudaGraphExecDestroy(known_.back().graph);
        }
        known_.pop_back();
    }
    return known_.emplace_front(Known{.key = {hash.low64, hash.high64}});
}

void Graphs::run(const Tape& tape, cudaStream_t stream) {
    if (tape.size() < kLeastLaunches) {
        tape.run(stream);
        return;
    }
    Known& known = find(tape);
    if (++known.times == 1) {
        tape.run(stream);
        return;
    }
    if (known.graph == nullptr) {
        known.graph = captured(tape, stream);
        ++made_;
    }
    require(cudaGraphLaunch(known.graph, stream), "starting a graph");
}

}  // namespace accrue::cuda
