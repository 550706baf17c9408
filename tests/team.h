#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "accrue/base/error.h"
#include "accrue/dist/workers.h"

namespace accrue::testing {

// What everybody else gets to know when a worker has left.
class WorkerLost final : public Error {
public:
    WorkerLost() : Error("a worker is gone") {}
};

// How a window's grains are shared out: in runs of consecutive ones, as large as these numbers say. A worker without any
// may take back what others have not begun; then the first one waits after each beginning until somebody did.
struct Sharing {
    enum class TakingBack { never, always };
    std::vector<int64_t> shares;
    TakingBack taking_back = TakingBack::never;
};

// Workers that are threads of this process. Nobody sleeps: whoever waits is woken.
class Team {
public:
    explicit Team(Sharing sharing);
    ~Team();

    // For one thread; valid as long as the team.
    [[nodiscard]] Workers worker(size_t number);
    // For good, with all that its sums hold. Each call of another one that waits, or that comes before it begins anew,
    // throws WorkerLost.
    void leave(size_t number);
    // How often grains were taken back before they were begun.
    [[nodiscard]] int64_t taken_back() const;

private:
    class Member;

    // Waits until everybody who is there has come; the last one does the work. With the lock held.
    template <class Work>
    void meet(std::unique_lock<std::mutex>& lock, const Work& work);
    [[nodiscard]] bool is_first_to_come() const { return arrived_ == 0; }
    void check_epoch(size_t number) const;
    void begin_epoch();
    void share_out();
    [[nodiscard]] bool must_wait(size_t number) const;
    void take_back(size_t number, int64_t most);
    void add_to_total(const GradientSum& sum);

    Sharing sharing_;
    std::vector<std::unique_ptr<Member>> members_;

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<int64_t> epoch_of_;  // in which each worker began; -1 = left
    int64_t epoch_ = 0;              // grows with each worker that leaves
    int64_t round_ = 0;
    size_t arrived_ = 0;
    size_t present_;

    WindowRecord record_;
    GrainLedger begun_;                           // what everybody's sums held at the beginning
    std::vector<std::vector<int64_t>> reserved_;  // for each worker, and not begun by it
    std::vector<std::vector<int64_t>> first_;     // what was reserved when the window began
    int64_t taken_back_ = 0;
    bool is_taken_back_ = false;  // something, since the window began
    bool stops_ = false;

    GrainLedger agreed_;
    bool agreed_to_stop_ = false;
    std::vector<int64_t> total_;
};

}  // namespace accrue::testing
