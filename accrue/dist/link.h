#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "accrue/dist/coordinator.h"
#include "accrue/dist/exchange.h"
#include "accrue/dist/roster_watch.h"

namespace accrue {

// The coordinator does not answer any more. Whoever waits long enough may find another one.
class CoordinatorLost final : public Error {
public:
    explicit CoordinatorLost(const std::string& why) : Error(why) {}
};

// What a worker asks of its coordinator: the calls of Coordinator (coordinator.h), each of which waits for its answer, and
// questions to whoever leads the run. While it lives, it tells the coordinator that the worker is alive. Calls throw
// RosterChanged where the roster has ended, CoordinatorLost where nobody answers, and Error with the coordinator's words
// where it refuses. For several threads.
class Link : public KeyStore {
public:
    [[nodiscard]] virtual Roster meet(const MeetRequest& request) = 0;
    [[nodiscard]] virtual Task task_after(const CallPlace& place, int64_t number) = 0;
    [[nodiscard]] virtual std::string done(const CallPlace& place, int64_t number, const std::string& said) = 0;
    virtual void begin(const CallPlace& place, const WindowRecord& record, const GrainLedger& mine) = 0;
    [[nodiscard]] virtual std::vector<int64_t> lease(const CallPlace& place, int64_t most) = 0;
    [[nodiscard]] virtual Coordinator::Agreed agree(const CallPlace& place, const GrainLedger& mine,
                                                    bool wishes_to_stop) = 0;
    [[nodiscard]] virtual Verdict vote(const CallPlace& place, int64_t attempt, const ExchangeChecks& checks) = 0;
    virtual void leave() = 0;
    // Told from another thread, once for each roster, when it lacks a member or others have met without this worker: calls of
    // the link say so by themselves, but whoever waits for that member would wait for long. Nothing: nobody is told any more,
    // and a call that was under way has returned.
    virtual void tell_when_roster_ends(RosterWatch::Told told) = 0;
    // A question to whoever leads the run, and its answer: bytes that only the two understand, up to 16 MiB each way. May
    // wait for long.
    [[nodiscard]] virtual std::string ask(const std::string& subject, const std::string& question) = 0;
};

// Answers the questions of Link::ask; called by several threads, for several workers, at once. An Error goes to whoever asked.
class Answers {
public:
    virtual ~Answers() = default;
    [[nodiscard]] virtual std::string answer(const std::string& worker, const std::string& subject,
                                             const std::string& question) = 0;
};

}  // namespace accrue
