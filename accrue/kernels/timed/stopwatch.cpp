#include "accrue/kernels/timed/stopwatch.h"

namespace accrue {

void Stopwatch::reset() {
    seconds_ = {};
    call_seconds_.clear();
}

void Stopwatch::begin(const Operation& operation) {
    part_ = std::visit([](const auto& call) { return call.part(); }, operation);
    has_laps_ = false;
    start_ = Clock::now();
}

void Stopwatch::lap(Share most, Share rest) {
    const Clock::time_point now = Clock::now();
    const std::chrono::duration<double> passed = now - start_;
    start_ = now;
    seconds_of(most.part) += most.share * passed.count();
    seconds_of(rest.part) += rest.share * passed.count();
    call_seconds_.push_back(passed.count());
    has_laps_ = true;
}

void Stopwatch::end() {
    if (!has_laps_) {
        lap({part_}, {part_, 0});
    }
}

}  // namespace accrue
