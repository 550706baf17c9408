#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "accrue/kernels/cuda/tape.h"

namespace accrue::cuda {

// Tapes that came more than once, as graphs: a graph starts its kernels without a host and with half the gaps between them.
class Graphs {
public:
    Graphs() = default;
    ~Graphs();
    Graphs(const Graphs&) = delete;
    Graphs& operator=(const Graphs&) = delete;

    // Puts what is on the tape on the stream: as a graph where it came before, otherwise launch by launch.
    void run(const Tape& tape, cudaStream_t stream);
    [[nodiscard]] int64_t made() const { return made_; }

private:
    struct Known {
        uint64_t key[2];
        cudaGraphExec_t graph = nullptr;
        int64_t times = 0;  // that it came
    };

    // Moves it to the front.
    [[nodiscard]] Known& find(const Tape& tape);

    std::list<Known> known_;  // the one used last in front
    int64_t made_ = 0;
};

}  // namespace accrue::cuda
