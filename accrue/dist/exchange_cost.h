#pragma once

#include <cstdint>
#include <span>

namespace accrue {

// What one exchange costs the members of a roster. All that foretells an exchange asks here.
struct ExchangeCost {
    int64_t members = 1;
    int64_t sent_bytes = 0;      // by the member that sends most, whom the others wait for
    int64_t all_sent_bytes = 0;  // by all of them together
    int64_t held_bytes = 0;      // the memory that it takes of each, beside the sums
};
// Of sums with so many elements, where everybody keeps everything. One member sends nothing and takes nothing. The figures come from
// what SumExchange does (sum_exchange.h): each member sends every other one that one's range of its own sums, 8 bytes an element,
// and then its own range of everybody's to every other one. That is 2 x 8 x (N-1)/N bytes an element and member, but for ranges
// being whole blocks.
[[nodiscard]] ExchangeCost cost_of_exchange(int64_t elements, int64_t members);

// A range of a state that members share.
struct RangeCost {
    int64_t elements = 0;
    int64_t weight_bytes = 0;  // of its weights as they are gathered
};
// Of sums and new weights where as many members as there are ranges share the state. The figures come from what RangeExchange and
// RangeGather do: each member sends the sums of all other ranges to their owners, what it has added up of its own to the other
// keepers, 8 bytes an element, and its own new weights to every other one. With two copies that is 8 + w (N-1)/N bytes an element
// and member, where w are the bytes of a weight.
[[nodiscard]] ExchangeCost cost_of_shared_exchange(std::span<const RangeCost> ranges, int64_t copies);

// How long an exchange takes where each member has a machine of its own and a link that carries so many bits a second each way: as
// long as the link takes or, from some 10 Gbit/s on, as its processor takes to read, send, receive, add and check.
[[nodiscard]] double seconds_over_link(const ExchangeCost& cost, double bits_per_second);
// The same where all members are processes of one machine, which has so many threads: an ordinary processor's figures.
[[nodiscard]] double seconds_over_loopback(const ExchangeCost& cost, int64_t threads);

}  // namespace accrue
