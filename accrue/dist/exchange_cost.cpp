#include "accrue/dist/exchange_cost.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "accrue/dist/lanes.h"
#include "accrue/dist/sum_exchange.h"

namespace accrue {
namespace {

constexpr auto kElementBytes = static_cast<int64_t>(sizeof(int64_t));
// Each of two lanes has a piece that goes and one that comes (lanes.h); calls to the coordinator take as much again.
constexpr int64_t kBesideBytes = 2 * 2 * 2 * kPieceBytes;
// Of a full Ethernet frame of 1538 bytes on the wire, TCP carries 1448: the rest are headers and the gap between frames.
constexpr double kCarriedShare = 1448.0 / 1538.0;

// What a member's thread sends a second over a loopback, with all that belongs to it: 0.8e9 on 2 cores with AVX-512 that others
// used too, 1.1e9 on quiet ones.
constexpr double kSentByAThread = 0.9e9;

}  // namespace

ExchangeCost cost_of_exchange(int64_t elements, int64_t members) {
    ExchangeCost cost{.members = members};
    if (members <= 1) {
        return cost;
    }
    for (int64_t rank = 0; rank < members; ++rank) {
        const int64_t own = owned_range(elements, rank, members).count;
        const int64_t given = elements - own;
        const int64_t gathered = own * (members - 1);
        const int64_t sent = kElementBytes * (given + gathered);
        cost.sent_bytes = std::max(cost.sent_bytes, sent);
        cost.all_sent_bytes += sent;
    }
    cost.held_bytes = kElementBytes * elements + kBesideBytes;
    return cost;
}

ExchangeCost cost_of_shared_exchange(std::span<const RangeCost> ranges, int64_t copies) {
    const int64_t members = std::ssize(ranges);
    ExchangeCost cost{.members = members};
    if (members <= 1) {
        return cost;
    }
    const int64_t keepers = std::min(copies, members);
    std::vector<int64_t> sizes;
    int64_t elements = 0;
    for (const RangeCost& range : ranges) {
        sizes.push_back(range.elements);
        elements += range.elements;
    }
    for (const RangeCost& own : ranges) {
        const int64_t summed = elements - own.elements + own.elements * (keepers - 1);
        const int64_t sent = kElementBytes * summed + own.weight_bytes * (members - 1);
        cost.sent_bytes = std::max(cost.sent_bytes, sent);
        cost.all_sent_bytes += sent;
    }
    std::ranges::sort(sizes, std::greater<>());
    const int64_t kept = std::accumulate(sizes.begin(), sizes.begin() + keepers, int64_t{0});
    cost.held_bytes = kElementBytes * kept + kBesideBytes;
    return cost;
}

double seconds_over_link(const ExchangeCost& cost, double bits_per_second) {
    const auto bytes = static_cast<double>(cost.sent_bytes);
    return std::max(8 * bytes / (kCarriedShare * bits_per_second), bytes / kSentByAThread);
}

double seconds_over_loopback(const ExchangeCost& cost, int64_t threads) {
    const auto at_once = static_cast<double>(std::min(cost.members, std::max<int64_t>(1, threads)));
    return static_cast<double>(cost.all_sent_bytes) / (at_once * kSentByAThread);
}

}  // namespace accrue
