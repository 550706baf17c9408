#include "tests/team_threads.h"

#include <optional>
#include <thread>

#include "accrue/dist/in_process_link.h"
#include "accrue/train/team/packet.h"
#include "accrue/train/team/team_worker.h"

namespace accrue::testing {

// Counts its calls: at one of them its worker dies or does not hear a verdict, the run is told to stop, or another worker comes.
class Threads::MortalLink : public Link {
public:
    MortalLink(Threads& threads, Link& link, const Fate& fate, bool is_first)
        : threads_(threads),
          link_(link),
          fate_(fate),
          is_mortal_(fate.last_call >= 0),
          calls_left_(fate.last_call),
          calls_to_stop_(is_first ? threads.options_.stop_at.call : -1),
          calls_to_join_(is_first ? threads.options_.join_at_call : -1) {}

    [[nodiscard]] Roster meet(const MeetRequest& request) override { return count(), link_.meet(request); }
    [[nodiscard]] Task task_after(const CallPlace& place, int64_t number) override {
        return count(), link_.task_after(place, number);
    }
    [[nodiscard]] std::string done(const CallPlace& place, int64_t number, const std::string& said) override {
        return count(), link_.done(place, number, said);
    }
    void begin(const CallPlace& place, const WindowRecord& record, const GrainLedger& mine) override {
        count();
        link_.begin(place, record, mine);
    }
    [[nodiscard]] std::vector<int64_t> lease(const CallPlace& place, int64_t most) override {
        return count(), link_.lease(place, most);
    }
    [[nodiscard]] Coordinator::Agreed agree(const CallPlace& place, const GrainLedger& mine,
                                            bool wishes_to_stop) override {
        return count(), link_.agree(place, mine, wishes_to_stop);
    }
    [[nodiscard]] Verdict vote(const CallPlace& place, int64_t attempt, const ExchangeChecks& checks) override {
        count();
        Verdict verdict = link_.vote(place, attempt, checks);
        if (fate_.at_vote != Fate::AtVote::nothing && fate_.vote-- == 0) {
            if (fate_.at_vote == Fate::AtVote::killed_after) {
                throw Killed();
            }
            throw RosterChanged("the verdict was lost on its way");
        }
        return verdict;
    }
    void leave() override { link_.leave(); }
    void tell_when_roster_ends(RosterWatch::Told told) override { link_.tell_when_roster_ends(std::move(told)); }
    [[nodiscard]] std::string ask(const std::string& subject, const std::string& question) override {
        return count(), link_.ask(subject, question);
    }
    void set(const std::string& key, const std::string& value) override {
        count();
        link_.set(key, value);
    }
    [[nodiscard]] std::string get(const std::string& key, std::chrono::milliseconds limit) override {
        return count(), link_.get(key, limit);
    }

protected:
    Threads& threads_;

private:
    void count() {
        if (is_mortal_ && calls_left_-- <= 0) {  // what was loaded ahead may not be looked at
            if (threads_.options_.death == Death::failed) {
                throw Failed();
            }
            throw Killed();
        }
        if (calls_to_stop_-- == 0) {
            *threads_.options_.stop_at.flag = true;
        }
        if (calls_to_join_-- == 0) {
            threads_.wait_for_a_joiner();
        }
    }

    Link& link_;
    Fate fate_;
    const bool is_mortal_;
    std::atomic<int64_t> calls_left_;  // batches are loaded by a thread of their own
    std::atomic<int64_t> calls_to_stop_;
    std::atomic<int64_t> calls_to_join_;
};

// Loses the first range of a validation, with the roster in which it was given, and later says losses for it that are none: once as
// somebody who does not know that there is another roster, and once as a member of that one.
class Threads::ForgingLink final : public MortalLink {
public:
    using MortalLink::MortalLink;

    [[nodiscard]] std::string ask(const std::string& subject, const std::string& question) override {
        if (subject != "validation") {
            return MortalLink::ask(subject, question);
        }
        const Packet asked = decoded(question);
        if (lost_ && number_of(asked, "roster") != lost_->roster) {
            const Lost lost = *std::exchange(lost_, std::nullopt);
            threads_.forged_ += 2;
            if (decoded(MortalLink::ask(subject, forged(lost, lost.roster))).words.contains("first")) {
                throw Error("a worker of another roster was given a part of the validation");
            }
            return MortalLink::ask(subject, forged(lost, number_of(asked, "roster")));
        }
        std::string answer = MortalLink::ask(subject, question);
        const Packet given = decoded(answer);
        if (!asked.words.contains("first") && given.words.contains("first") && may_lose_) {
            lost_ = {.range = number_of(given, "first"),
                     .rows = number_of(given, "rows"),
                     .roster = number_of(asked, "roster")};
            may_lose_ = false;
            throw RosterChanged("a worker has lost the others");
        }
        may_lose_ = true;
        return answer;
    }

private:
    struct Lost {
        int64_t range = 0;
        int64_t rows = 0;
        int64_t roster = 0;
    };
    static std::string forged(const Lost& lost, int64_t roster) {
        const std::vector<float> losses(static_cast<size_t>(lost.rows), 1000.0F);
        return encoded({.words = {{"roster", roster}, {"first", lost.range}},
                        .bytes = {reinterpret_cast<const char*>(losses.data()), losses.size() * sizeof(float)}});
    }

    std::optional<Lost> lost_;
    bool may_lose_ = true;
};

Threads::Threads(CoordinatorDesk& desk, ThreadsOptions options) : desk_(desk), options_(std::move(options)) {}

Threads::~Threads() {
    desk_.close();
    for (Worker& worker : all_) {
        if (worker.end.valid()) {
            worker.end.wait();
        }
    }
}

void Threads::start(Answers& leader) {
    leader_ = &leader;
    for (const Fate& fate : options_.fates) {
        start_one(fate);
    }
}

std::vector<std::string> Threads::look_after() {
    if (wants_a_joiner_.exchange(false)) {
        start_one(kNeverKilled);
        ++joined_;
    }
    for (size_t number = 0; number < all_.size(); ++number) {
        Worker& worker = all_[number];
        if (!worker.end.valid() || worker.end.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
            continue;
        }
        try {
            worker.end.get();
        } catch (const Killed&) {
            desk_.leave(worker.name);
            start_one(kNeverKilled);
            ++killed_;
        }
    }
    return {};
}

void Threads::end() {
    for (Worker& worker : all_) {
        try {
            if (worker.end.valid()) {
                worker.end.get();
            }
        } catch (const Killed&) {
            ++killed_;
        }
    }
}

void Threads::start_one(const Fate& fate) {
    const std::string name = cat("w", all_.size());
    const bool is_first = all_.empty();
    all_.push_back({.name = name, .end = std::async(std::launch::async, [this, name, fate, is_first] {
                                      work(name, fate, is_first);
                                  })});
}

void Threads::work(const std::string& name, const Fate& fate, bool is_first) {
    InProcessLink link(desk_, *leader_, name);
    if (options_.forges_validation) {
        ForgingLink forging(*this, link, fate, is_first);
        work_for_team(forging, {.name = name});
    } else {
        MortalLink mortal(*this, link, fate, is_first);
        work_for_team(mortal, {.name = name});
    }
}

// Until it has ended the roster by coming.
void Threads::wait_for_a_joiner() {
    const int64_t roster = desk_.standing().roster;
    wants_a_joiner_ = true;
    while (desk_.standing().is_formed && desk_.standing().roster == roster) {
        std::this_thread::yield();
    }
}

}  // namespace accrue::testing
