#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "accrue/base/clock.h"
#include "accrue/dist/link.h"

namespace accrue {

// The questions of workers that are far away: each is answered once, by some threads of its own, and its answer kept until the
// worker has it, however often it asks after it.
class AskedQuestions {
public:
    // `answered` is called after each answer, by any thread.
    AskedQuestions(Answers& answers, int64_t threads, std::function<void()> answered);
    // Waits for those that are being answered.
    ~AskedQuestions();
    AskedQuestions(const AskedQuestions&) = delete;
    AskedQuestions& operator=(const AskedQuestions&) = delete;

    // A question of a link of a worker; numbers grow.
    struct Place {
        std::string worker;
        uint64_t link = 0;
        int64_t number = 0;
    };
    // An Error if the worker has too many at a time.
    void ask(const Place& place, const std::string& subject, const std::string& question);
    [[nodiscard]] bool knows(const Place& place);
    // None yet, or what the answer has thrown; a question that is not known is an Error.
    [[nodiscard]] Soon<std::string> answer(const Place& place);
    // Of the questions up to that number, the worker asks only those any more. Those of another link have nothing to do with it.
    void forget_all_but(const std::set<int64_t>& open, const Place& newest);

private:
    struct Question {
        std::string worker;
        std::string subject;
        std::string words;
        Clock::time_point asked_at;  // last
        bool is_answered = false;
        std::string answer = {};
        std::optional<std::string> error = {};  // instead of an answer
    };
    struct OfWorker {
        uint64_t link = 0;
        std::map<int64_t, std::shared_ptr<Question>> questions;
    };

    [[nodiscard]] Question* find(const Place& place);
    void forget_the_forgotten();
    void run();
    void answer_question(Question& question);

    Answers& answers_;
    const std::function<void()> answered_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, OfWorker> workers_;
    std::deque<std::shared_ptr<Question>> open_;
    bool ends_ = false;
    std::vector<std::thread> threads_;  // after all that they use
};

}  // namespace accrue
