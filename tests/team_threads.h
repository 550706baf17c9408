#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "accrue/dist/link.h"
#include "accrue/train/step.h"
#include "accrue/train/team/team_leader.h"

// Workers that are threads of this process, each with an engine of its own, which know nothing but what their leader says.
namespace accrue::testing {

// How a worker ends before its time: killed, or with an error that says so.
enum class Death { killed, failed };
class Killed final : public std::exception {};
class Failed final : public Error {
public:
    Failed() : Error("a worker has failed") {}
};

// When the run is told to stop: at that call of its first worker.
struct StopAt {
    int64_t call = -1;
    StopFlag* flag = nullptr;
};

// What becomes of a worker: at which of its calls it dies, or what happens at one of its votes, both counted from 0 on.
struct Fate {
    enum class AtVote { nothing, killed_after, verdict_is_lost };

    Fate(int64_t call) : last_call(call) {}  // NOLINT(google-explicit-constructor): most die at a call, or never
    Fate(AtVote what, int64_t number) : at_vote(what), vote(number) {}

    int64_t last_call = -1;  // never
    AtVote at_vote = AtVote::nothing;
    int64_t vote = -1;
};
constexpr int64_t kNeverKilled = -1;

struct ThreadsOptions {
    std::vector<Fate> fates;  // of each worker
    Death death = Death::killed;
    StopAt stop_at = {};
    int64_t join_at_call = -1;  // of the first worker: another one comes, for which that call waits
    // A worker's first answer of each validation is lost, with its roster; in the next one it comes with other losses.
    bool forges_validation = false;
};

// Threads in the place of processes. A worker that is killed is started again, under another name.
class Threads final : public Workforce {
public:
    Threads(CoordinatorDesk& desk, ThreadsOptions options);
    // Whoever still waits ends.
    ~Threads() override;

    void start(Answers& leader) override;
    [[nodiscard]] std::vector<std::string> look_after() override;
    void end() override;
    [[nodiscard]] int64_t killed() const override { return killed_; }
    [[nodiscard]] int64_t joined() const { return joined_; }
    [[nodiscard]] int64_t forged() const { return forged_; }

private:
    class MortalLink;
    class ForgingLink;
    struct Worker {
        std::string name;
        std::future<void> end;
    };

    void start_one(const Fate& fate);
    void work(const std::string& name, const Fate& fate, bool is_first);
    void wait_for_a_joiner();

    CoordinatorDesk& desk_;
    const ThreadsOptions options_;
    Answers* leader_ = nullptr;
    std::deque<Worker> all_;
    int64_t killed_ = 0;
    int64_t joined_ = 0;
    std::atomic<int64_t> forged_ = 0;
    std::atomic<bool> wants_a_joiner_ = false;
};

}  // namespace accrue::testing
