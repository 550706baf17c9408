#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accrue/dist/grain_shares.h"
#include "accrue/dist/messages.h"
#include "accrue/dist/rosters.h"
#include "accrue/dist/shared_tasks.h"
#include "accrue/dist/shared_window.h"

namespace accrue {

// Who takes part, who computes which grain, and whether a window counts. No threads, no clock, no network: whoever calls says
// what time it is, and asks again where there is no answer yet. Every call may come twice (its answer was lost) and finds
// the same answer. Not for several threads at once.
//
// An Error other than RosterChanged says who broke which rule, and ends the run: every later call of a worker throws it again.
//
// Rules, each of which a test breaks without:
// - A grain is in one worker's sums. It is given out again only in a roster without its holder, who then begins with empty sums.
// - A window is begun by all members with the same record, or by nobody.
// - A window commits only if all ledgers are disjoint and complete and the checks of the exchange add up.
// - Nobody is given a grain of the next window before all members have begun it, and nobody begins it before this one counts.
class Coordinator {
public:
    using Options = Rosters::Options;
    explicit Coordinator(const Options& options) : rosters_(options) {}

    // ---- who is there. A worker is there from its first call of meet() or beat() on.
    void beat(const std::string& worker, double now) { rosters_.beat(worker, now); }
    // It is gone, for good or until it comes again.
    void leave(const std::string& worker, double now) { rosters_.leave(worker, now); }
    // Ends the roster if a member was silent for too long. Called from time to time.
    void look_around(double now) { rosters_.look_around(now); }

    // None until the roster is formed: when every live member of the last one has come, and enough for a first one. To ask is a
    // sign of life, too. A member that asks what it has asked before, and has made no call in the roster, did not get the
    // answer, and gets it again. Whoever else asks while there is a roster ends it: a worker that wants to join, a member that
    // has lost the others, or one that was started again. Only what a worker asked in an older roster than the one that it has
    // named, or called from, since then is a late copy and changes nothing.
    [[nodiscard]] Soon<Roster> meet(const MeetRequest& request, double now);

    // ---- what all do next, in one roster. Each throws RosterChanged where the place is of another, or the roster has ended.
    // By whoever leads the run. Nobody is asked to stop any more.
    void set_task(std::string words);
    // The task after the one of that number, which is done (0 = the first); none while there is none. In a new roster all ask for
    // the first again: a task is done where all members of one roster have said so, and it may be that not all have heard it.
    [[nodiscard]] Soon<Task> task_after(const CallPlace& place, int64_t number);
    // The worker has done a task; what it says of it. Ready when all members have said the same, which is the answer. A
    // worker that says something else than rank 0 is named in an Error: bits differ.
    [[nodiscard]] Soon<std::string> done(const CallPlace& place, int64_t number, const std::string& said);

    // ---- a window. A replay, the next window, and one that was left open, begin anew.
    // Ready when all members have begun it. An Error if records differ or a grain is in two ledgers.
    [[nodiscard]] Soon<bool> begin(const CallPlace& place, const WindowRecord& record, const GrainLedger& mine);
    // The next grains of that worker, ascending, at most so many; with this call those of the call before are finished. Empty:
    // nothing is left, or somebody stops. How many a worker gets of a window follows from how fast it was.
    [[nodiscard]] std::vector<int64_t> lease(const CallPlace& place, int64_t most, double now);
    using Agreed = SharedWindow::Agreed;
    // Ready when all members have come. An Error if a grain is in the sums of somebody to whom it was not given, or if it is
    // missing although nobody stops.
    [[nodiscard]] Soon<Agreed> agree(const CallPlace& place, const GrainLedger& mine, bool wishes_to_stop);
    // Ready when all members have voted. `attempt` counts the exchanges of a window since it was begun, from 0 on. Not committed:
    // the exchange is done again as the next attempt. If the window was left open, the sums are rank 0's from now on.
    [[nodiscard]] Soon<Verdict> vote(const CallPlace& place, int64_t attempt, const ExchangeChecks& checks);

    // ---- for whoever leads the run.
    // Until the next task is set, nobody is given any grain: the open window, and those that are begun, are left open.
    void ask_to_stop();
    // Whoever is there meets now, if they are fewer than the first roster is for, too.
    void wait_for_no_more() { rosters_.wait_for_no_more(); }
    [[nodiscard]] int64_t term() const { return rosters_.term(); }
    // The present roster, or the last one while all are asked to meet again: its number, its members by rank, and what their
    // weights had seen when they came (-1 = none).
    [[nodiscard]] int64_t roster() const { return rosters_.number(); }
    [[nodiscard]] std::vector<std::string> members() const { return rosters_.workers(); }
    [[nodiscard]] std::vector<int64_t> steps() const { return rosters_.steps(); }
    // Members that are not gone, and whoever has come to join them.
    [[nodiscard]] int64_t present() const { return rosters_.present(); }
    // Whoever has given a sign of life and is not gone.
    [[nodiscard]] std::vector<std::string> heard() const { return rosters_.heard(); }
    // Is there a roster, and is nobody asked to meet again?
    [[nodiscard]] bool is_formed() const { return rosters_.is_formed(); }
    [[nodiscard]] RosterHealth health() const { return rosters_.health(); }
    // Since the start: workers that were lost, grains that were given out again, exchanges that did not count.
    struct Counts {
        int64_t lost_workers = 0;  // killed or silent, not those that left
        int64_t recomputed_grains = 0;
        int64_t faults = 0;
    };
    [[nodiscard]] Counts counts() const;
    // Words about what happened since the last call, for people: who came, who is gone and why, faults.
    [[nodiscard]] std::vector<std::string> take_news();

private:
    // What a worker was given last.
    struct Lease {
        int64_t call = 0;
        std::vector<int64_t> grains = {};
        double given_at = 0;
        bool is_timed = false;  // the time until its next call is that of these grains
    };
    // What all members of a roster do together.
    struct Together {
        Together(int64_t number, const std::vector<std::string>& members);

        int64_t roster;
        std::vector<std::string> workers;  // by rank
        SharedTasks tasks;
        std::optional<SharedWindow> window;       // that all have begun
        std::optional<SharedWindow> next_window;  // that some have begun
        std::vector<Lease> leases;                // by rank
    };
    // To whom each grain of a window was given last, or who had it in its sums, in whatever roster.
    struct Holders {
        WindowRecord record = {};
        std::vector<std::string> workers = {};  // by grain; empty = nobody
    };

    // What action(rank) gives, for a member.
    template <class Action>
    auto for_member(const CallPlace& place, const Action& action);
    void require_no_fault() const;
    void require_may_begin(size_t rank, const WindowRecord& record, const GrainLedger& mine) const;
    void open_next_window();
    [[nodiscard]] SharedWindow& open_window(size_t rank);
    [[nodiscard]] std::vector<double> speeds() const;
    [[nodiscard]] bool is_lost(int64_t grain) const;
    void note_begun();
    void note_given(const std::string& worker, const std::vector<int64_t>& grains);
    void note_verdict(const Verdict& verdict);
    void tell(std::string news);

    Rosters rosters_;
    Together together_{0, {}};
    Holders holders_;  // of the newest window
    Task task_;
    bool asks_to_stop_ = false;
    std::map<std::string, WorkerSpeed> speeds_;
    int64_t recomputed_grains_ = 0;
    int64_t faults_ = 0;
    std::vector<std::string> news_;
    std::string fault_;  // why the run has ended; empty = it goes on
};

}  // namespace accrue
