#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "accrue/accumulate/element_ranges.h"
#include "accrue/dist/messages.h"
#include "accrue/dist/range_keepers.h"

namespace accrue {

// Where collectives meet: small values by key. Implemented by the coordinator's link.
class KeyStore {
public:
    virtual ~KeyStore() = default;
    virtual void set(const std::string& key, const std::string& value) = 0;
    // Waits until it is there; throws RosterChanged after `limit`, or earlier when the roster has ended.
    [[nodiscard]] virtual std::string get(const std::string& key, std::chrono::milliseconds limit) = 0;
};

// Where sums come from and go to, piece by piece, so that no second buffer of their size is needed.
struct IntegerSums {
    int64_t elements = 0;
    std::function<void(int64_t first, std::span<int64_t> into)> read;
    std::function<void(int64_t first, std::span<const int64_t> from)> write;  // of everybody's
    // All of them where a device has them, for exchanges that need no host (gpu_exchange.h); empty: only as above.
    std::span<std::byte> on_device = {};
};

// What members share of the state, and where what is added up of it goes.
struct SharedRanges {
    std::vector<ElementRange> ranges;
    RangeKeepers keepers;
    std::vector<std::span<int64_t>>
        totals;  // of each range that I keep, memory for its elements; of all others nothing
};

// Bytes that one member has for all others.
struct GatherSource {
    int64_t from_rank = 0;
    int64_t bytes = 0;
};
using ReadSource = std::function<void(size_t source, int64_t first, std::span<std::byte> into)>;
using WriteSource = std::function<void(size_t source, int64_t first, std::span<const std::byte> from)>;

class GpuExchange;

// The members of a roster, connected with each other. Every call is made by all of them in the same order, and waits for all.
// If one is gone, or silent for longer than the limit, the call throws RosterChanged; a mesh that threw is of no more use.
class Mesh {
public:
    virtual ~Mesh() = default;
    // From now on sums that lie on devices are added up in another way than by this mesh's connections. By all members or none.
    virtual void add_up_by(std::unique_ptr<GpuExchange> gpus) = 0;
    // Throws RosterChanged if a member is known to be gone.
    virtual void require_all() = 0;
    // Everybody's sums in the place of mine. Nothing is written before everything was reduced and `commits` has answered: asked
    // with the checks of this attempt, it says whether to write. False: nothing was written, and it is done again. Factors of
    // the checks follow from `seed`, which differs from window to window.
    [[nodiscard]] virtual bool add_up(const IntegerSums& sums, uint64_t seed,
                                      const std::function<bool(const ExchangeChecks&)>& commits) = 0;
    // Everybody's sums of each range to its keepers: the checks of it, by owner, as a vote wants them. What a member does not keep it
    // takes its owner's word for; each keeper answers for what it holds. The sums stay as they are.
    [[nodiscard]] virtual ExchangeChecks reduce(const IntegerSums& sums, const SharedRanges& shared, uint64_t seed) = 0;
    // What everybody tells all others, by rank: few bytes.
    [[nodiscard]] virtual std::vector<std::string> tell_all(const std::string& mine) = 0;
    // What one member tells all others, who wait for it and say nothing meanwhile: for when it may take a while. Few bytes.
    [[nodiscard]] virtual std::string tell(int64_t from_rank, const std::string& words) = 0;
    // Bytes of several members to all others: each reads those of its own sources and writes all that come. All must name the same
    // sources. Whether they came whole is known only at the end: after a throw, what was written is of no use.
    virtual void gather(std::span<const GatherSource> sources, const ReadSource& read, const WriteSource& write) = 0;
    // Bytes of one member to all others: it reads them and they write them, piece by piece. A receiver that expects another
    // number of bytes than are sent is an Error for everybody. Whether they came whole is known only at the end: after a throw,
    // what was written is of no use.
    virtual void broadcast(int64_t from_rank, int64_t bytes,
                           const std::function<void(int64_t first, std::span<std::byte> into)>& read,
                           const std::function<void(int64_t first, std::span<const std::byte> from)>& write) = 0;
    // From another thread: this member waits for nobody any more, and calls throw RosterChanged. Where nothing else is said, they
    // wait for as long as a member may be silent.
    virtual void give_up(const std::string& /*why*/) {}
    // Sent by this member since it was connected.
    [[nodiscard]] virtual int64_t sent_bytes() const = 0;
};

}  // namespace accrue
