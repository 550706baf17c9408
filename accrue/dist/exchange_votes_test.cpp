#include "accrue/dist/exchange_votes.h"

#include <gmock/gmock.h>

namespace accrue {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr uint64_t kHuge = uint64_t{1} << 63;

class ExchangeVotesTest : public ::testing::Test {
protected:
    // All vote on an exchange; the verdict is that of the last.
    Verdict verdict(int64_t attempt, const std::vector<ExchangeChecks>& checks) {
        EXPECT_FALSE(votes_.vote(1, attempt, checks[1]));
        EXPECT_FALSE(votes_.vote(0, attempt, checks[0]));
        EXPECT_FALSE(votes_.vote(0, attempt, checks[0])) << "who asks again has one vote";
        return votes_.vote(2, attempt, checks[2]).value();
    }

    // Range 0 adds up to 6, range 1 to 0 modulo 2^64, range 2 to 3.
    const std::vector<ExchangeChecks> right_ = {{.given = {1, kHuge, 1}, .total = {6, 0, 3}},
                                                {.given = {2, kHuge, 1}, .total = {6, 0, 3}},
                                                {.given = {3, 0, 1}, .total = {6, 0, 3}}};
    ExchangeVotes votes_{{"a", "b", "c"}};
};

TEST_F(ExchangeVotesTest, AnExchangeCountsWhereEachTotalIsTheSumOfWhatWasGiven) {
    EXPECT_TRUE(verdict(0, right_).commits);
    EXPECT_TRUE(votes_.is_committed());
    EXPECT_TRUE(votes_.vote(0, 0, right_[0])->commits) << "who asks again hears the same";
}

TEST_F(ExchangeVotesTest, WhoeverHasAnotherTotalThanTheOthersIsNamed) {
    std::vector<ExchangeChecks> checks = right_;
    checks[2].total[1] = 7;
    const Verdict one = verdict(0, checks);
    EXPECT_FALSE(one.commits);
    EXPECT_EQ(one.fault, "worker c got another sum of range 1 than was given");
    checks[0].total[1] = 8;
    EXPECT_EQ(verdict(1, checks).fault, "worker a and worker c got another sum of range 1 than was given");
}

TEST_F(ExchangeVotesTest, WhereNobodyHasTheRightTotalTheOwnerOfTheRangeIsNamed) {
    std::vector<ExchangeChecks> checks = right_;
    for (ExchangeChecks& each : checks) {
        each.total[1] = 1;
    }
    EXPECT_EQ(verdict(0, checks).fault, "worker b has added up something else than was given of range 1");
    checks[2].total[2] = 4;
    EXPECT_EQ(verdict(1, checks).fault,
              "worker b has added up something else than was given of range 1; "
              "worker c got another sum of range 2 than was given");
}

TEST_F(ExchangeVotesTest, AnExchangeThatDoesNotCountIsVotedOnAgain) {
    std::vector<ExchangeChecks> checks = right_;
    checks[0].given[0] = 0;
    EXPECT_FALSE(verdict(0, checks).commits);
    EXPECT_FALSE(votes_.vote(1, 1, right_[1])) << "one is on the next exchange";
    EXPECT_FALSE(votes_.vote(2, 0, checks[2])->commits) << "while another has not heard of the last one";
    EXPECT_EQ(votes_.decided(), 1);
    EXPECT_FALSE(votes_.vote(0, 1, right_[0]));
    EXPECT_TRUE(votes_.vote(2, 1, right_[2])->commits);
}

TEST_F(ExchangeVotesTest, AVoteThatDoesNotFitIsAnError) {
    EXPECT_THAT([&] { (void)votes_.vote(1, 1, right_[1]); },
                ThrowsMessage<Error>(HasSubstr("worker b votes on exchange 1, but exchange 0 is next")));
    EXPECT_THAT(
        [&] {
            (void)votes_.vote(1, 0, {.given = {1, 2}, .total = {1, 2, 3}});
        },
        ThrowsMessage<Error>(HasSubstr("worker b has checked 2 ranges that were given and 3 of the total, but "
                                       "there are 3 workers")));
    (void)verdict(0, right_);
    EXPECT_THAT([&] { (void)votes_.vote(1, 1, right_[1]); },
                ThrowsMessage<Error>(HasSubstr("worker b votes on exchange 1, but exchange 0 counts already")));
}

}  // namespace
}  // namespace accrue
