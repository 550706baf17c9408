#pragma once

#include <array>
#include <span>
#include <vector>

#include "accrue/base/clock.h"
#include "accrue/kernels/kernels.h"

namespace accrue {

// Adds the wall time of each operation of a device to the part that it belongs to. Costs two looks at the clock for each,
// and stops watching when it ends. For devices that are done when an operation returns.
class Stopwatch final : public OperationWatch {
public:
    explicit Stopwatch(Kernels& kernels) : kernels_(kernels) { kernels_.watch(this); }
    ~Stopwatch() override { kernels_.watch(nullptr); }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

    // Seconds by part, and of each operation (of its laps, where it has some) in their order, since the last reset.
    using Seconds = std::array<double, kParts>;
    [[nodiscard]] const Seconds& seconds() const { return seconds_; }
    [[nodiscard]] std::span<const double> call_seconds() const { return call_seconds_; }
    [[nodiscard]] int64_t calls() const { return std::ssize(call_seconds_); }
    void reset();

    void begin(const Operation& operation) override;
    void lap(Share most, Share rest) override;
    void end() override;

private:
    double& seconds_of(Part part) { return seconds_[static_cast<size_t>(part)]; }

    Kernels& kernels_;
    Seconds seconds_{};
    std::vector<double> call_seconds_;
    Part part_ = Part::elementwise;
    bool has_laps_ = false;
    Clock::time_point start_;
};

}  // namespace accrue
