#pragma once

#include <atomic>
#include <cstdint>

namespace accrue {

// What a run is doing at this moment, for whoever asks at any moment: a signal handler too, so nothing here can lock.
struct RunWatch {
    enum class Doing { starting, tokenizing, adding, evaluating, saving, finishing };
    static constexpr int64_t kUnknown = -1;

    std::atomic<Doing> doing = Doing::starting;
    std::atomic<int64_t> saved_step = kUnknown;                // the newest checkpoint's
    std::atomic<int64_t> micro_batch_milliseconds = kUnknown;  // of the last one
    std::atomic<int64_t> checkpoint_milliseconds = kUnknown;   // to write the last one
};
static_assert(std::atomic<RunWatch::Doing>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

// Something else is done until the end of a scope.
class DoingMeanwhile {
public:
    DoingMeanwhile(RunWatch& watch, RunWatch::Doing doing) : watch_(watch), before_(watch.doing.exchange(doing)) {}
    ~DoingMeanwhile() { watch_.doing = before_; }
    DoingMeanwhile(const DoingMeanwhile&) = delete;
    DoingMeanwhile& operator=(const DoingMeanwhile&) = delete;

private:
    RunWatch& watch_;
    RunWatch::Doing before_;
};

}  // namespace accrue
