#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace accrue {

// A thread to start processes in that are killed when their parent ends (PR_SET_PDEATHSIG): Linux kills them when the thread ends that
// has started them, and threads that a run needs for a while end before it.
class StartingThread {
public:
    StartingThread();
    ~StartingThread();
    StartingThread(const StartingThread&) = delete;
    StartingThread& operator=(const StartingThread&) = delete;

    // Waits until it is done; throws what it throws. For one thread at a time.
    void run(const std::function<void()>& work);

private:
    void serve();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::packaged_task<void()> work_;
    bool ends_ = false;
    std::thread thread_;  // after all that it uses
};

}  // namespace accrue
