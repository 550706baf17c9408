#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accrue/accumulate/ledger.h"
#include "accrue/accumulate/window_record.h"
#include "accrue/dist/exchange_votes.h"
#include "accrue/dist/grain_shares.h"

namespace accrue {

// A window in one roster: all members begin it, share out its grains, agree on what they have, and vote whether the exchange of
// their sums counts. Members are ranks. An Error says who broke which rule: nothing of the window may be applied then.
class SharedWindow {
public:
    SharedWindow(WindowRecord record, std::vector<std::string> workers);

    [[nodiscard]] const WindowRecord& record() const { return record_; }

    // A member begins it, by the call of that number, with what its sums hold. An Error if somebody who was first has another
    // record, or the same grain.
    void begin(size_t rank, int64_t call, const WindowRecord& record, const GrainLedger& mine);
    [[nodiscard]] bool was_begun_by(size_t rank, int64_t call) const { return begun_by_[rank] == call; }
    [[nodiscard]] bool is_begun_by_all() const;

    // Once, when all have begun it.
    void share_out(const std::vector<double>& speeds);
    // The next grains of a member, ascending, `most` at most.
    [[nodiscard]] std::vector<int64_t> give(size_t rank, int64_t most, const std::vector<double>& speeds);
    // From now on nobody is given anything, and the window may end incomplete.
    void stop() { stops_ = true; }
    // In whose sums a grain is, or to whom it was given; none = neither.
    [[nodiscard]] std::optional<size_t> holder(int64_t grain) const { return holders_[static_cast<size_t>(grain)]; }

    struct Agreed {
        GrainLedger everyone;
        bool stops = false;
    };
    // What a member's sums hold. Ready when all have come. An Error if a grain is in other sums than those of its holder, or
    // missing although nobody stops.
    [[nodiscard]] Soon<Agreed> agree(size_t rank, const GrainLedger& mine);
    [[nodiscard]] bool is_agreed() const { return agreed_stop_.has_value(); }
    // All have agreed to stop before it was complete.
    [[nodiscard]] bool is_left_open() const;

    // What a member found in an exchange; as ExchangeVotes says.
    [[nodiscard]] Soon<Verdict> vote(size_t rank, int64_t attempt, const ExchangeChecks& checks);
    [[nodiscard]] int64_t decided_exchanges() const { return votes_.decided(); }
    [[nodiscard]] bool is_committed() const { return votes_.is_committed(); }

private:
    void require_shape(size_t rank, const GrainLedger& mine) const;
    void require_free(size_t rank, const GrainLedger& mine) const;
    void require_held(size_t rank, const GrainLedger& mine) const;
    void require_complete() const;
    // "worker b", or "nobody".
    [[nodiscard]] std::string holder_text(int64_t grain) const;

    WindowRecord record_;
    std::vector<std::string> workers_;  // by rank
    std::vector<int64_t> begun_by_;     // by rank; 0 = has not begun it
    std::vector<std::optional<size_t>> holders_;
    GrainShares shares_;
    bool stops_ = false;
    std::optional<GrainLedger> everyone_;  // of those who have come to agree; none before somebody has begun
    std::vector<bool> has_come_;           // to agree, by rank
    std::optional<bool> agreed_stop_;      // none before all have come
    ExchangeVotes votes_;
};

}  // namespace accrue
