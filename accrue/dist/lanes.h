#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "accrue/dist/gloo_wire.h"

namespace accrue {

// What is exchanged at a time: large enough for the network, small enough for a cache.
inline constexpr int64_t kPieceBytes = int64_t{4} << 20;
inline constexpr int64_t kPieceElements = kPieceBytes / 8;  // of sums

// Integers that wrap around.
inline void add_wrapping(std::span<int64_t> total, std::span<const int64_t> more) {
    for (size_t i = 0; i < total.size(); ++i) {
        total[i] = static_cast<int64_t>(static_cast<uint64_t>(total[i]) + static_cast<uint64_t>(more[i]));
    }
}

// The messages of a job, and memory for them.
struct Lane {
    std::vector<int64_t> outgoing;
    std::vector<int64_t> incoming;
    std::unique_ptr<Message> sent;
    std::unique_ptr<Message> received;
};

// Jobs that follow one another, each begun before the one before it is finished: messages are under way while this thread
// computes. Beginning one must wait until its lane's last message was sent.
class Lanes {
public:
    [[nodiscard]] Lane& of(int64_t job) { return lanes_[static_cast<size_t>(job % 2)]; }

    // Calls begin(job) and finish(job) for each, in order.
    template <class Begin, class Finish>
    void run(int64_t jobs, const Begin& begin, const Finish& finish) {
        for (int64_t job = 0; job <= jobs; ++job) {
            if (job < jobs) {
                begin(job);
            }
            if (job > 0) {
                finish(job - 1);
            }
        }
        for (Lane& lane : lanes_) {
            wait_for(lane.sent);
        }
    }

private:
    std::array<Lane, 2> lanes_;
};

}  // namespace accrue
