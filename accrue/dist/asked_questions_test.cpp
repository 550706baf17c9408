#include "accrue/dist/asked_questions.h"

#include <atomic>
#include <latch>

#include <gtest/gtest.h>

#include "accrue/dist/coordinator_desk.h"

namespace accrue {
namespace {

// Answers when it may.
class HeldAnswers final : public Answers {
public:
    std::string answer(const std::string& worker, const std::string& subject, const std::string& question) override {
        ++asked;
        asked.notify_all();
        may_answer.wait();
        if (subject == "error") {
            throw Error(question);
        }
        return worker + question;
    }
    std::latch may_answer{1};
    std::atomic<int64_t> asked = 0;
};

class AskedQuestionsTest : public ::testing::Test {
protected:
    using Place = AskedQuestions::Place;

    // Waits for it.
    std::string answer(const Place& place) {
        while (true) {
            const int64_t seen = answered_;
            if (auto answer = questions_.answer(place)) {
                return *answer;
            }
            answered_.wait(seen);
        }
    }

    HeldAnswers answers_;
    std::atomic<int64_t> answered_ = 0;
    AskedQuestions questions_{answers_, 2, [this] {
                                  ++answered_;
                                  answered_.notify_all();
                              }};
};

TEST_F(AskedQuestionsTest, AQuestionIsAnsweredOnceHoweverOftenItIsAsked) {
    const Place place{.worker = "a", .link = 1, .number = 1};
    questions_.ask(place, "data", "?");
    questions_.ask(place, "data", "?");
    EXPECT_FALSE(questions_.answer(place));
    answers_.may_answer.count_down();
    EXPECT_EQ(answer(place), "a?");
    EXPECT_EQ(answer(place), "a?");
    EXPECT_EQ(answers_.asked, 1);
}

// One thread answers, in order: when the second question has its answer, the first one had all that it gets.
TEST_F(AskedQuestionsTest, AskedAgainWhileItIsAnsweredItIsAnsweredOnce) {
    std::atomic<int64_t> answered = 0;
    AskedQuestions questions(answers_, 1, [&] {
        ++answered;
        answered.notify_all();
    });
    const Place first{.worker = "a", .link = 1, .number = 1};
    const Place second{.worker = "a", .link = 1, .number = 2};
    questions.ask(first, "data", "?");
    answers_.asked.wait(0);
    questions.ask(first, "data", "?");
    questions.ask(second, "data", "!");
    answers_.may_answer.count_down();
    for (int64_t seen = 0; !questions.answer(second); seen = answered) {
        answered.wait(seen);
    }
    EXPECT_EQ(questions.answer(first), "a?");
    EXPECT_EQ(answers_.asked, 2);
}

TEST_F(AskedQuestionsTest, AnErrorIsTheAnswer) {
    answers_.may_answer.count_down();
    const Place place{.worker = "a", .link = 1, .number = 1};
    questions_.ask(place, "error", "no such file");
    EXPECT_THROW((void)answer(place), Error);
    EXPECT_THROW((void)answer(place), Error);
}

TEST_F(AskedQuestionsTest, WhatTheWorkerHasIsForgotten) {
    answers_.may_answer.count_down();
    const Place first{.worker = "a", .link = 1, .number = 1};
    const Place second{.worker = "a", .link = 1, .number = 2};
    questions_.ask(first, "data", "1");
    questions_.ask(second, "data", "2");
    questions_.forget_all_but({2}, second);
    EXPECT_FALSE(questions_.knows(first));
    EXPECT_EQ(answer(second), "a2");
}

// Of two threads that ask, one may be held up for long between its question and the next word of it.
TEST_F(AskedQuestionsTest, OneThatIsOpenForLongKeepsNoOthersThatAreAnswered) {
    answers_.may_answer.count_down();
    const Place first{.worker = "a", .link = 1, .number = 1};
    questions_.ask(first, "data", "1");
    for (int64_t number = 2; number < 100; ++number) {
        const Place place{.worker = "a", .link = 1, .number = number};
        questions_.forget_all_but({1, number}, place);
        EXPECT_NO_THROW(questions_.ask(place, "data", "?"));
    }
    EXPECT_EQ(answer(first), "a1");
}

TEST_F(AskedQuestionsTest, WhatIsSaidLateForgetsNothingThatWasAskedAfterIt) {
    answers_.may_answer.count_down();
    const Place second{.worker = "a", .link = 1, .number = 2};
    questions_.ask(second, "data", "2");
    questions_.forget_all_but({1}, {.worker = "a", .link = 1, .number = 1});
    EXPECT_TRUE(questions_.knows(second));
}

TEST_F(AskedQuestionsTest, AWorkerThatWasStartedAgainHasNewQuestions) {
    answers_.may_answer.count_down();
    const Place before{.worker = "a", .link = 1, .number = 1};
    const Place after{.worker = "a", .link = 2, .number = 1};
    questions_.ask(before, "data", "before");
    questions_.ask(after, "data", "after");
    EXPECT_FALSE(questions_.knows(before));
    EXPECT_EQ(answer(after), "aafter");
}

TEST_F(AskedQuestionsTest, AWorkerAsksOnlySoMuchAtATime) {
    for (int64_t number = 1; number <= 16; ++number) {
        questions_.ask({.worker = "a", .link = 1, .number = number}, "data", "?");
    }
    EXPECT_THROW(questions_.ask({.worker = "a", .link = 1, .number = 17}, "data", "?"), Error);
    EXPECT_NO_THROW(questions_.ask({.worker = "b", .link = 1, .number = 1}, "data", "?"));
    answers_.may_answer.count_down();
}

}  // namespace
}  // namespace accrue
