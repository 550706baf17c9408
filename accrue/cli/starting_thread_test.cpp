#include "accrue/cli/starting_thread.h"

#include <array>
#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace accrue {
namespace {

// A process that dies with its parent, and says back what it is told.
class Echo {
public:
    void start() {
        ASSERT_EQ(pipe2(there_.data(), O_CLOEXEC), 0);
        ASSERT_EQ(pipe2(back_.data(), O_CLOEXEC), 0);
        id_ = fork();
        if (id_ == 0) {
            close(there_[1]);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (char letter = 0; write(back_[1], "x", 1) == 1 && read(there_[0], &letter, 1) == 1;) {
            }
            _exit(0);
        }
        close(back_[1]);
        char letter = 0;
        ASSERT_EQ(read(back_[0], &letter, 1), 1);  // it has said with whom it dies
    }
    ~Echo() {
        kill(id_, SIGKILL);
        waitpid(id_, nullptr, 0);
        close(there_[0]);
        close(there_[1]);
        close(back_[0]);
    }
    [[nodiscard]] bool answers() {
        char letter = 0;
        return write(there_[1], "x", 1) == 1 && read(back_[0], &letter, 1) == 1;
    }

private:
    pid_t id_ = -1;
    std::array<int, 2> there_{};
    std::array<int, 2> back_{};
};

// Calls work in a thread, and waits until the system has forgotten that one.
template <class Work>
void in_a_short_thread(const Work& work) {
    pid_t id = 0;
    std::thread([&] {
        id = gettid();
        work();
    }).join();
    while (std::filesystem::exists("/proc/self/task/" + std::to_string(id))) {
        std::this_thread::yield();
    }
}

TEST(StartingThreadTest, WhatItStartedOutlivesTheThreadThatAskedForIt) {
    StartingThread starting;
    Echo echo;
    in_a_short_thread([&] { starting.run([&] { echo.start(); }); });
    EXPECT_TRUE(echo.answers());
    EXPECT_TRUE(echo.answers());
}

// Otherwise this whole class would not be needed.
TEST(StartingThreadTest, WhatAnotherThreadStartedDiesWithThatThread) {
    Echo echo;
    in_a_short_thread([&] { echo.start(); });
    EXPECT_FALSE(echo.answers());
}

TEST(StartingThreadTest, WhatIsThrownComesOut) {
    StartingThread starting;
    EXPECT_THROW(starting.run([] { throw std::runtime_error("no"); }), std::runtime_error);
    bool is_done = false;
    starting.run([&] { is_done = true; });
    EXPECT_TRUE(is_done);
}

}  // namespace
}  // namespace accrue
