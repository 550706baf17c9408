#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accrue/dist/messages.h"

namespace accrue {

// Who takes part: rosters, one after another, each with its members. A roster is formed when all who are there have come to meet,
// and ends when one of them is gone, has lost the others, or somebody else comes.
class Rosters {
public:
    struct Options {
        int64_t term = 1;
        double silence_seconds = 10;  // after which a worker counts as gone
        int64_t least_workers = 1;    // of the first roster
        double gather_seconds = 60;   // after which the first roster is formed with fewer, if there are any
    };
    explicit Rosters(const Options& options) : options_(options) {}

    // As Coordinator says.
    void beat(const std::string& worker, double now) { seen_[worker] = now; }
    void leave(const std::string& worker, double now);
    void look_around(double now);
    [[nodiscard]] Soon<Roster> meet(const MeetRequest& request, double now);
    // The first roster waits for nobody who is not there.
    void wait_for_no_more() { options_.least_workers = 1; }

    // The rank of a member that makes this call. Throws RosterChanged where the roster is another or has ended, or the call is a late
    // copy.
    [[nodiscard]] size_t enter(const CallPlace& place);

    // From now on, grains are given out in this roster: what workers have in their sums that are not in it is worth nothing.
    void note_window_begun();
    // Rank 0 has everybody's sums: as long as no window is begun, what others have in theirs is worth nothing.
    void note_sums_gathered();

    [[nodiscard]] int64_t term() const { return options_.term; }
    // The present roster, or the last one.
    [[nodiscard]] int64_t number() const { return number_; }
    [[nodiscard]] bool is_formed() const { return is_formed_; }
    [[nodiscard]] RosterHealth health() const;
    [[nodiscard]] std::vector<std::string> workers() const;
    [[nodiscard]] std::vector<int64_t> steps() const;
    // Members that are not gone, and whoever has come to join them.
    [[nodiscard]] int64_t present() const;
    // Whoever has given a sign of life and is not gone, also those that have yet to come.
    [[nodiscard]] std::vector<std::string> heard() const;
    [[nodiscard]] bool keeps_sums(size_t rank) const { return members_[rank].keeps_sums; }
    // Killed or silent, not those that left.
    [[nodiscard]] int64_t lost_workers() const { return lost_workers_; }
    [[nodiscard]] std::vector<std::string> take_news();

private:
    struct Member {
        MeetRequest request;  // with which it came
        bool keeps_sums = false;
        bool is_gone = false;     // since it came
        bool has_left = false;    // and has sent all that it had begun to send
        int64_t newest_call = 0;  // 0 = none yet
    };

    [[nodiscard]] const Member* member(const std::string& worker) const;
    // Whoever is a member and not known to be gone.
    [[nodiscard]] Member* live_member(const std::string& worker);
    // Of this term; 0 = none.
    [[nodiscard]] int64_t last_roster(const MeetRequest& request) const {
        return request.term == options_.term ? request.roster : 0;
    }
    [[nodiscard]] bool is_late_copy(const MeetRequest& request) const;
    [[nodiscard]] Soon<Roster> present_roster(const MeetRequest& request) const;
    void note_who_asks(const MeetRequest& request);
    void lose(const std::string& worker, const std::string& why);
    [[nodiscard]] bool is_complete(double now) const;
    void form_if_complete(double now);
    [[nodiscard]] Member member_of(const MeetRequest& request) const;

    Options options_;
    std::map<std::string, double> seen_;          // when each worker gave its last sign of life
    std::map<std::string, MeetRequest> waiting_;  // who has come to meet
    double first_came_at_ = 0;                    // of those who wait
    int64_t number_ = 0;
    bool is_formed_ = false;
    std::vector<Member> members_;             // by rank
    int64_t last_begun_ = 0;                  // the newest roster in which a window was begun
    std::optional<std::string> gathered_by_;  // who has everybody's sums
    int64_t lost_workers_ = 0;
    std::vector<std::string> news_;
};

}  // namespace accrue
