#pragma once

#include <cstdint>

namespace accrue {

// What one exchange of sums costs the members of a roster. All that foretells an exchange asks here, and the figures come from
// what SumExchange does (sum_exchange.h): each member sends every other one that one's range of its own sums, 8 bytes an element,
// and then its own range of everybody's to every other one. That is 2 x 8 x (N-1)/N bytes an element and member, but for ranges
// being whole blocks.
struct ExchangeCost {
    int64_t members = 1;
    int64_t sent_bytes = 0;      // by the member that sends most, whom the others wait for
    int64_t all_sent_bytes = 0;  // by all of them together
    int64_t held_bytes = 0;      // the memory that it takes of each, beside the sums
};
// Of sums with so many elements. One member sends nothing and takes nothing.
[[nodiscard]] ExchangeCost cost_of_exchange(int64_t elements, int64_t members);

// How long an exchange takes where each member has a machine of its own and a link that carries so many bits a second each way: as
// long as the link takes or, from some 10 Gbit/s on, as its processor takes to read, send, receive, add and check.
[[nodiscard]] double seconds_over_link(const ExchangeCost& cost, double bits_per_second);
// The same where all members are processes of one machine, which has so many threads: an ordinary processor's figures.
[[nodiscard]] double seconds_over_loopback(const ExchangeCost& cost, int64_t threads);

}  // namespace accrue
