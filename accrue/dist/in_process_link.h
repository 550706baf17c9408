#pragma once

#include <mutex>
#include <string>

#include "accrue/dist/coordinator_desk.h"
#include "accrue/dist/heartbeat.h"
#include "accrue/dist/link.h"

namespace accrue {

// A link to a coordinator in the same process, which must outlive it, as must whoever answers.
class InProcessLink final : public Link {
public:
    InProcessLink(CoordinatorDesk& desk, Answers& answers, std::string worker);

    [[nodiscard]] Roster meet(const MeetRequest& request) override;
    [[nodiscard]] Task task_after(const CallPlace& place, int64_t number) override;
    [[nodiscard]] std::string done(const CallPlace& place, int64_t number, const std::string& said) override;
    void begin(const CallPlace& place, const WindowRecord& record, const GrainLedger& mine) override;
    [[nodiscard]] std::vector<int64_t> lease(const CallPlace& place, int64_t most) override;
    [[nodiscard]] Coordinator::Agreed agree(const CallPlace& place, const GrainLedger& mine,
                                            bool wishes_to_stop) override;
    [[nodiscard]] Verdict vote(const CallPlace& place, int64_t attempt, const ExchangeChecks& checks) override;
    void leave() override;
    void tell_when_roster_ends(RosterWatch::Told told) override;
    [[nodiscard]] std::string ask(const std::string& subject, const std::string& question) override;
    void set(const std::string& key, const std::string& value) override;
    [[nodiscard]] std::string get(const std::string& key, std::chrono::milliseconds limit) override;

private:
    [[nodiscard]] RosterKey in_my_roster(const std::string& key) const;

    CoordinatorDesk& desk_;
    Answers& answers_;
    const std::string worker_;
    mutable std::mutex mutex_;
    RosterKey met_;  // term and number of the roster that it met last
    RosterWatch watch_;
    Heartbeat heartbeat_;  // after all that it uses
};

}  // namespace accrue
