#include "accrue/train/team/state_desk.h"

#include <array>
#include <future>

#include <gtest/gtest.h>

#include "accrue/dist/messages.h"

namespace accrue {
namespace {

// What a worker is to do next, however often it must ask.
Packet command_for(StateDesk& desk, const std::string& worker) {
    Packet command = desk.next(worker, {});
    while (command.words.at("do") == "idle") {
        command = desk.next(worker, {});
    }
    return command;
}

void answer(StateDesk& desk, const std::string& worker, const Packet& command, const std::string& bytes) {
    (void)desk.next(worker, {.words = {{"done", command.words.at("number")}}, .bytes = bytes});
}

std::future<std::string> read_in_a_thread(StateDesk& desk, int64_t part, int64_t bytes) {
    return std::async(std::launch::async, [&desk, part, bytes] {
        std::string into(static_cast<size_t>(bytes), '\0');
        desk.read({.part = part, .offset = 0}, std::as_writable_bytes(std::span(into)), bytes);
        return into;
    });
}

TEST(StateDeskTest, SeveralThreadsReadEachItsBytes) {
    StateDesk desk;
    desk.begin("a", [] {});
    std::vector<std::future<std::string>> readers;
    for (int64_t part = 0; part < 3; ++part) {
        readers.push_back(read_in_a_thread(desk, part, part + 1));
    }
    for (int64_t part = 0; part < 3; ++part) {
        const Packet command = command_for(desk, "a");
        EXPECT_EQ(command.words.at("bytes"), command.words.at("part").get<int64_t>() + 1);
        const auto letters = command.words.at("bytes").get<size_t>();
        answer(desk, "a", command, std::string(letters, static_cast<char>('a' + letters)));
    }
    EXPECT_EQ(readers[0].get(), "b");
    EXPECT_EQ(readers[1].get(), "cc");
    EXPECT_EQ(readers[2].get(), "ddd");
}

// Two threads wrote the files of a checkpoint when all workers were gone for a moment: one took what the other had asked for.
TEST(StateDeskTest, AReaderWhoseWorkerIsGoneDoesNotGetTheBytesOfAnother) {
    StateDesk desk;
    desk.begin("a", [] {});
    auto lost = read_in_a_thread(desk, 0, 32);
    const Packet never_answered = command_for(desk, "a");
    desk.abandon(desk.session());
    desk.begin("b", [] {});
    auto found = read_in_a_thread(desk, 1, 4);
    const Packet command = command_for(desk, "b");
    EXPECT_EQ(command.words.at("part"), 1);
    answer(desk, "b", command, "1234");
    EXPECT_EQ(found.get(), "1234");
    EXPECT_THROW((void)lost.get(), RosterChanged);
}

TEST(StateDeskTest, AnAnswerThatComesLateIsNotThatOfAnotherQuestion) {
    StateDesk desk;
    desk.begin("a", [] {});
    auto lost = read_in_a_thread(desk, 0, 4);
    const Packet late = command_for(desk, "a");
    desk.abandon(desk.session());
    EXPECT_THROW((void)lost.get(), RosterChanged);
    desk.begin("a", [] {});
    auto found = read_in_a_thread(desk, 1, 4);
    const Packet command = command_for(desk, "a");
    answer(desk, "a", late, "late");
    answer(desk, "a", command, "good");
    EXPECT_EQ(found.get(), "good");
}

// Whoever notices last would otherwise end what the others have begun anew, and they his, for ever.
TEST(StateDeskTest, OnlyThePresentSessionIsAbandoned) {
    StateDesk desk;
    desk.begin("a", [] {});
    const int64_t first = desk.session();
    desk.abandon(first);
    EXPECT_FALSE(desk.is_open());
    desk.begin("b", [] {});
    desk.abandon(first);
    EXPECT_TRUE(desk.is_open());
}

}  // namespace
}  // namespace accrue
