#include "accrue/dist/gloo_wire.h"

#include <array>
#include <chrono>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/dist/members_testing.h"

namespace accrue::testing {
namespace {

using Bytes = std::vector<std::byte>;

// Three members with a limit of 100 s, for which no test waits. All have heard of each other before they begin.
std::vector<Outcome> on_wires(const std::function<void(int64_t rank, std::unique_ptr<GlooWire>& wire)>& work) {
    MemoryStore store;
    return each_in_a_thread(3, [&](int64_t rank) {
        const MeshDevice device;
        const MeshOptions options{.rank = rank, .size = 3, .connect_limit = std::chrono::seconds(100)};
        auto wire = std::make_unique<GlooWire>(device, store, options);
        std::array<Bytes, 3> bytes{Bytes(1), Bytes(1), Bytes(1)};
        std::vector<std::unique_ptr<Message>> greetings;
        for (const int64_t other : {(rank + 1) % 3, (rank + 2) % 3}) {
            greetings.push_back(wire->send(other, bytes[static_cast<size_t>(rank)]));
            greetings.push_back(wire->receive(other, bytes[static_cast<size_t>(other)]));
        }
        for (auto& greeting : greetings) {
            wait_for(greeting);
        }
        work(rank, wire);
    });
}

void expect_loss_at_once(Message& message) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THROW(message.wait(), RosterChanged);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(GlooWireTest, MessagesComeInTheOrderInWhichTheyWereSent) {
    const auto outcomes = on_wires([](int64_t rank, std::unique_ptr<GlooWire>& wire) {
        std::vector<Bytes> sent;
        std::vector<Bytes> received;
        std::vector<std::unique_ptr<Message>> messages;
        for (size_t number = 0; number < 50; ++number) {
            sent.emplace_back(number * 1000, static_cast<std::byte>(number));
            received.emplace_back(number * 1000);
        }
        for (size_t number = 0; number < 50; ++number) {
            messages.push_back(wire->send((rank + 1) % 3, sent[number]));
            messages.push_back(wire->receive((rank + 2) % 3, received[number]));
        }
        for (auto& message : messages) {
            wait_for(message);
        }
        EXPECT_EQ(received, sent);
        EXPECT_EQ(wire->sent_bytes(), 2 + 49 * 50 / 2 * 1000);
    });
    EXPECT_EQ(outcomes, std::vector<Outcome>(3));
}

// Gloo itself would not tell.
TEST(GlooWireTest, AMemberThatIsLostInTheMiddleOfItsMessageIsNoticedAtOnce) {
    const auto outcomes = on_wires([](int64_t rank, std::unique_ptr<GlooWire>& wire) {
        Bytes large(100'000'000);
        Bytes small(1);
        if (rank == 0) {
            const auto message = wire->receive(1, large);
            wire->send(1, small)->wait();
            expect_loss_at_once(*message);
        } else if (rank == 1) {
            wire->receive(0, small)->wait();
            const auto message = wire->send(0, large);  // has begun when this returns, and cannot be complete
            wire->close();
            EXPECT_THROW(message->wait(), RosterChanged);
        }
    });
    EXPECT_EQ(outcomes, std::vector<Outcome>(3));
}

TEST(GlooWireTest, ALostMemberIsNoticedAtOnceByThoseWhoWaitForAnother) {
    std::promise<void> is_noticed;
    const auto outcomes = on_wires([&](int64_t rank, std::unique_ptr<GlooWire>& wire) {
        Bytes bytes(1);
        if (rank == 0) {
            expect_loss_at_once(*wire->receive(2, bytes));
            EXPECT_THROW((void)wire->send(2, bytes), RosterChanged);
            is_noticed.set_value();
        } else if (rank == 1) {
            wire->close();
        } else {
            is_noticed.get_future().wait();
        }
    });
    EXPECT_EQ(outcomes, std::vector<Outcome>(3));
}

TEST(GlooWireTest, WhoeverTakesLeaveDoesNotDisturbTheOthers) {
    std::promise<void> has_left;
    const auto outcomes = on_wires([&](int64_t rank, std::unique_ptr<GlooWire>& wire) {
        Bytes bytes(1);
        if (rank == 0) {
            wire->receive(2, bytes)->wait();
        } else if (rank == 1) {
            wire.reset();
            has_left.set_value();
        } else {
            has_left.get_future().wait();
            wire->send(0, bytes)->wait();
        }
    });
    EXPECT_EQ(outcomes, std::vector<Outcome>(3));
}

}  // namespace
}  // namespace accrue::testing
