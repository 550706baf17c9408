#include "accrue/dist/leadership.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "accrue/dist/etcd_testing.h"

namespace accrue::testing {
namespace {

using Condition = Etcd::Condition;

class EtcdTest : public ::testing::Test {
protected:
    void SetUp() override {
        if (!has_etcd()) {
            GTEST_SKIP() << "there is no etcd (Debian: etcd-server)";
        }
        process_.emplace();
    }

    [[nodiscard]] EtcdOptions options() const { return {.endpoints = process_->url()}; }
    [[nodiscard]] std::unique_ptr<Leadership> win(Etcd& etcd, const std::string& candidate) const {
        return Leadership::win(
            etcd, {.run = "small", .candidate = candidate, .lease_seconds = 5}, [] { return false; },
            [](const std::string&) {});
    }

    std::optional<EtcdProcess> process_;
};
using LeadershipTest = EtcdTest;

template <class Action>
std::string error_of(const Action& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.what();
    }
    return "nothing was thrown";
}

TEST_F(EtcdTest, KeepsWhatIsPutWhereConditionsHold) {
    Etcd etcd(options());
    EXPECT_FALSE(etcd.get("a"));
    const std::string text("\0\xff \"}", 5);
    EXPECT_TRUE(etcd.put_if({{.key = "a"}}, {{.key = "a", .text = text}, {.key = "b", .text = ""}}));
    const auto a = etcd.get("a");
    ASSERT_TRUE(a);
    EXPECT_EQ(a->text, text);
    EXPECT_EQ(a->created_at, a->changed_at);
    ASSERT_TRUE(etcd.get("b"));
    EXPECT_EQ(etcd.get("b")->text, "");

    EXPECT_FALSE(etcd.put_if({{.key = "a"}}, {{.key = "a", .text = "again"}}));
    EXPECT_TRUE(etcd.put_if({{.key = "a", .of = Condition::Of::change, .revision = a->changed_at}},
                            {{.key = "a", .text = "next"}}));
    EXPECT_EQ(etcd.get("a")->text, "next");
    EXPECT_EQ(etcd.get("a")->created_at, a->created_at);
    EXPECT_GT(etcd.get("a")->changed_at, a->changed_at);
    EXPECT_FALSE(etcd.put_if({{.key = "a", .of = Condition::Of::change, .revision = a->changed_at}},
                             {{.key = "a", .text = "late"}}));
}

TEST_F(EtcdTest, WhatBelongsToALeaseGoesWithIt) {
    Etcd etcd(options());
    const int64_t lease = etcd.begin_lease(60);
    EXPECT_TRUE(etcd.put_if({}, {{.key = "a", .text = "1", .lease = lease}}));
    EXPECT_TRUE(etcd.renew_lease(lease));
    EXPECT_TRUE(etcd.get("a"));
    etcd.end_lease(lease);
    EXPECT_FALSE(etcd.get("a"));
    EXPECT_FALSE(etcd.renew_lease(lease));
}

TEST_F(EtcdTest, WhoeverIsSilentIsPassedOver) {
    Etcd etcd({.endpoints = cat("http://127.0.0.1:1, ,", process_->url().substr(7), "/")});
    EXPECT_TRUE(etcd.put_if({}, {{.key = "a", .text = "1"}}));
    EXPECT_TRUE(etcd.get("a"));
}

TEST(EtcdErrorTest, NamesWhoIsSilent) {
    Etcd etcd({.endpoints = "http://127.0.0.1:1"});
    EXPECT_EQ(error_of([&] { (void)etcd.get("a"); }), "no etcd answers (http://127.0.0.1:1: Connection)");
}

TEST(EtcdErrorTest, NamesWhatIsNoAddress) {
    EXPECT_EQ(error_of([] { const Etcd etcd({.endpoints = " , "}); }), "' , ' names no etcd: write http://HOST:2379.");
    EXPECT_EQ(error_of([] { const Etcd etcd({.endpoints = "ftp://here:1"}); }),
              "'ftp://here:1' is no address of an etcd: write it as http://HOST:2379.");
}

TEST_F(LeadershipTest, OneLeadsAndTheNextHasAHigherTerm) {
    Etcd etcd(options());
    auto first = win(etcd, "first");
    ASSERT_TRUE(first);
    EXPECT_EQ(first->term(), 1);
    EXPECT_EQ(first->committed_step(), -1);
    first->commit(7);

    Etcd other(options());
    std::vector<std::string> told;
    const auto none = Leadership::win(
        other, {.run = "small", .candidate = "second"}, [&] { return !told.empty(); },
        [&](const std::string& leader) { told.push_back(leader); });
    EXPECT_FALSE(none);
    EXPECT_EQ(told, std::vector<std::string>{"first"});

    first.reset();
    const auto second = win(other, "second");
    ASSERT_TRUE(second);
    EXPECT_EQ(second->term(), 2);
    EXPECT_EQ(second->committed_step(), 7);
    second->commit(8);
    EXPECT_EQ(second->committed_step(), 8);
    EXPECT_EQ(second->ended_after(), 0);
    second->note_end(9);
    EXPECT_EQ(second->ended_after(), 9);
}

TEST_F(LeadershipTest, OfManyAtOnceOneWins) {
    std::array<std::optional<Etcd>, 8> etcds;
    std::array<std::unique_ptr<Leadership>, 8> winners;
    std::vector<std::thread> candidates;
    for (size_t i = 0; i < winners.size(); ++i) {
        candidates.emplace_back([&, i] {
            etcds[i].emplace(options());
            bool is_told = false;
            winners[i] = Leadership::win(
                *etcds[i], {.run = "small", .candidate = std::to_string(i)}, [&] { return is_told; },
                [&](const std::string&) { is_told = true; });
        });
    }
    for (std::thread& candidate : candidates) {
        candidate.join();
    }
    EXPECT_EQ(std::ranges::count_if(winners, [](const auto& winner) { return winner != nullptr; }), 1);
}

TEST_F(LeadershipTest, RunsDoNotKnowOfEachOther) {
    Etcd etcd(options());
    const auto ours = win(etcd, "first");
    const auto theirs = Leadership::win(
        etcd, {.run = "large", .candidate = "first"}, [] { return false; }, [](const std::string&) {});
    ASSERT_TRUE(ours && theirs);
    EXPECT_EQ(theirs->term(), 1);
}

// As one that slept, or was cut off: it is not told, and finds out where it wants to write.
TEST_F(LeadershipTest, WhoeverLostItWithoutKnowingCommitsNothing) {
    Etcd etcd(options());
    const auto first = win(etcd, "first");
    first->commit(3);
    Etcd other(options());
    other.end_lease(first->lease());
    const auto second = win(other, "second");
    ASSERT_TRUE(second);
    EXPECT_EQ(error_of([&] { first->commit(4); }).find("this program does not lead the run any more: "), 0U);
    EXPECT_THROW(first->commit(4), LeadershipLost);
    EXPECT_EQ(second->committed_step(), 3);
}

TEST_F(LeadershipTest, ALeaseIsKeptAliveForLongerThanItsTime) {
    Etcd etcd(options());
    const auto first = win(etcd, "first");
    const int64_t before = etcd.get("accrue/small/leader")->created_at;
    // By etcd's clock: a lease of longer ends because nobody renews it.
    Etcd clock(options());
    ASSERT_TRUE(clock.put_if({}, {{.key = "tick", .text = "", .lease = clock.begin_lease(8)}}));
    while (clock.get("tick")) {
        std::this_thread::yield();
    }
    first->commit(1);
    EXPECT_EQ(etcd.get("accrue/small/leader")->created_at, before);
}

TEST_F(LeadershipTest, WithoutEtcdNobodyLeads) {
    Etcd etcd({.endpoints = process_->url(), .patience = std::chrono::milliseconds(300)});
    const auto first = win(etcd, "first");
    first->commit(1);
    process_->freeze();
    EXPECT_THROW(first->commit(2), LeadershipLost);
    process_->thaw();
    EXPECT_THROW(first->commit(2), LeadershipLost);
}

}  // namespace
}  // namespace accrue::testing
