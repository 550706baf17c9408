#pragma once

#include <functional>
#include <vector>

#include "accrue/kernels/kernels.h"
#include "accrue/train/engine.h"
#include "accrue/train/team/state_desk.h"

namespace accrue {

// A device whose memory is a worker's: an engine on it computes nothing, and its weights, moments and sums are those that the
// worker holds, read and written through the desk. Its arena is dry.
class DistantKernels final : public Kernels {
public:
    // Both must outlive it.
    DistantKernels(Arena& arena, StateDesk& desk) : arena_(arena), desk_(desk) {}

    // Once the engine is there, and before anything is read or written.
    void serve(Engine& engine) { parts_ = state_parts(engine); }
    // A worker must serve before anything is read or written: open() returns its session. If it is gone, failed() is told which one
    // that was, perhaps by several threads, and another one goes on, or failed() throws.
    struct Sessions {
        std::function<int64_t()> open;
        std::function<void(int64_t session)> failed;
    };
    void before_use(Sessions sessions) { sessions_ = std::move(sessions); }

    [[nodiscard]] std::string description() const override { return "workers"; }
    [[nodiscard]] Arena& arena() override { return arena_; }

private:
    void compute(const Operation& operation) override;
    template <class Action>
    void in_session(const Action& action);

    Arena& arena_;
    StateDesk& desk_;
    std::vector<std::span<std::byte>> parts_;
    Sessions sessions_;
};

}  // namespace accrue
