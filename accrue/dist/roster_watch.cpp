#include "accrue/dist/roster_watch.h"

#include <utility>

namespace accrue {

void RosterWatch::tell(Told told) {
    const std::lock_guard lock(mutex_);
    told_ = std::move(told);
}

void RosterWatch::enter(int64_t term, int64_t roster) {
    const std::lock_guard lock(mutex_);
    term_ = term;
    roster_ = roster;
    told_of_ = 0;
}

void RosterWatch::hear(const RosterHealth& health) {
    const std::lock_guard lock(mutex_);
    const bool is_over = health.roster > roster_ || (health.roster == roster_ && health.lacks_member);
    if (told_ && roster_ > 0 && health.term == term_ && is_over && told_of_ != roster_) {
        told_of_ = roster_;
        told_(roster_);
    }
}

}  // namespace accrue
