#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "accrue/dist/coordinator.h"

namespace accrue {

// A key of the collectives, in one roster: when another is formed, it is gone.
struct RosterKey {
    int64_t term = 0;
    int64_t roster = 0;
    std::string key;
};

// A coordinator (coordinator.h) with a clock, for several threads. Calls of workers wait for their answer, for `most` at the
// longest, and then have none yet: ask again. All throw CoordinatorLost (link.h) after close(). Has a thread, which notices who is
// silent.
class CoordinatorDesk {
public:
    using Milliseconds = std::chrono::milliseconds;

    explicit CoordinatorDesk(const Coordinator::Options& options);
    // No call may be under way any more: close() ends those that wait.
    ~CoordinatorDesk();
    CoordinatorDesk(const CoordinatorDesk&) = delete;
    CoordinatorDesk& operator=(const CoordinatorDesk&) = delete;

    // ---- for workers, as Coordinator says.
    void beat(const std::string& worker);
    [[nodiscard]] RosterHealth health() const;
    // Of itself, or by whoever knows that its process has ended.
    void leave(const std::string& worker);
    [[nodiscard]] Soon<Roster> meet(const MeetRequest& request, Milliseconds most);
    [[nodiscard]] Soon<Task> task_after(const CallPlace& place, int64_t number, Milliseconds most);
    [[nodiscard]] Soon<std::string> done(const CallPlace& place, int64_t number, const std::string& said,
                                         Milliseconds most);
    [[nodiscard]] Soon<bool> begin(const CallPlace& place, const WindowRecord& record, const GrainLedger& mine,
                                   Milliseconds most);
    [[nodiscard]] std::vector<int64_t> lease(const CallPlace& place, int64_t most_grains);
    struct Wish {
        bool stop = false;
    };
    [[nodiscard]] Soon<Coordinator::Agreed> agree(const CallPlace& place, const GrainLedger& mine, Wish wish,
                                                  Milliseconds most);
    [[nodiscard]] Soon<Verdict> vote(const CallPlace& place, int64_t attempt, const ExchangeChecks& checks,
                                     Milliseconds most);
    // Both throw RosterChanged where the roster is another one or has ended.
    void set_key(const RosterKey& key, const std::string& value);
    [[nodiscard]] Soon<std::string> value_of_key(const RosterKey& key, Milliseconds most);
    // After which a worker that gives no sign of life counts as gone, and how often it should therefore give one.
    [[nodiscard]] Milliseconds silence() const { return silence_; }
    [[nodiscard]] Milliseconds beat_interval() const;
    [[nodiscard]] int64_t term() const;

    // ---- for whoever leads the run.
    // The number of the new task.
    int64_t set_task(std::string words);
    // What all members said of a task. Waits for it, until gives_up() is true: asked several times a second, and also while
    // nothing happens. Throws the Error that has ended the run, if one has. The answer of a task before the last one that was
    // answered is not kept.
    [[nodiscard]] Soon<std::string> task_answer(int64_t number, const std::function<bool()>& gives_up);
    // In which roster all members have said it: of the last task that was answered.
    [[nodiscard]] int64_t roster_of_answer() const;
    void ask_to_stop();
    void wait_for_no_more();
    [[nodiscard]] std::vector<std::string> take_news();
    // Who takes part, as Coordinator says of each.
    struct Standing {
        int64_t term = 0;
        int64_t roster = 0;
        bool is_formed = false;
        std::vector<std::string> members;
        std::vector<int64_t> steps;
        int64_t present = 0;  // members that are not gone, and whoever has come to join them
        Coordinator::Counts counts;
    };
    [[nodiscard]] Standing standing() const;
    // Whoever has given a sign of life and is not gone, also those that have yet to come.
    [[nodiscard]] std::vector<std::string> heard() const;
    // From now on every call of a worker throws CoordinatorLost, and those that wait do so at once.
    void close();

    // ---- for whoever answers many workers and does not want to wait in a thread for each of them: ask without waiting, and
    // again after each change.
    // So many changes have there been. Waits until there are more than `seen`, for `most` at the longest.
    [[nodiscard]] int64_t changes_after(int64_t seen, Milliseconds most);
    // Something that whoever waits for a change wants to know, but the coordinator does not.
    void note_change();

private:
    template <class Ask>
    auto ask_once(const Ask& ask) -> decltype(ask());
    template <class Ask>
    auto answer_within(Milliseconds most, const Ask& ask) -> decltype(ask());
    void require_open() const;
    void require_present(const RosterKey& key);
    void look_around();
    void wake();

    const Milliseconds silence_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    int64_t changes_ = 0;
    bool is_closed_ = false;
    Coordinator coordinator_;
    std::string fault_;  // that has ended the run; empty = none
    // Of the leader.
    int64_t newest_task_ = 0;
    int64_t answered_task_ = 0;
    std::string task_answer_;
    int64_t roster_of_answer_ = 0;
    // Of the roster that they were set in.
    std::map<std::string, std::string> keys_;
    int64_t roster_of_keys_ = 0;

    bool ends_ = false;
    std::thread watch_;  // after all that it uses
};

}  // namespace accrue
