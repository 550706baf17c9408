#include "accrue/dist/asked_questions.h"

#include <utility>

#include "accrue/dist/wire_messages.h"

namespace accrue {
namespace {

// Of one worker, at a time: what its threads may ask, and not enough to fill the memory.
constexpr size_t kMostQuestions = 16;
// After which nobody comes for an answer any more: longer than workers are patient.
constexpr double kForgottenSeconds = 300;

}  // namespace

AskedQuestions::AskedQuestions(Answers& answers, int64_t threads, std::function<void()> answered)
    : answers_(answers), answered_(std::move(answered)) {
    for (int64_t number = 0; number < threads; ++number) {
        threads_.emplace_back([this] { run(); });
    }
}

AskedQuestions::~AskedQuestions() {
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) {
        thread.join();
    }
}

AskedQuestions::Question* AskedQuestions::find(const Place& place) {
    const auto worker = workers_.find(place.worker);
    if (worker == workers_.end() || worker->second.link != place.link) {
        return nullptr;
    }
    const auto question = worker->second.questions.find(place.number);
    return question == worker->second.questions.end() ? nullptr : question->second.get();
}

void AskedQuestions::ask(const Place& place, const std::string& subject, const std::string& question) {
    const std::lock_guard lock(mutex_);
    if (find(place) != nullptr) {
        return;
    }
    forget_the_forgotten();
    OfWorker& worker = workers_[place.worker];
    if (worker.link != place.link) {
        worker = {.link = place.link, .questions = {}};
    }
    if (worker.questions.size() >= kMostQuestions) {
        throw Error(cat("worker ", place.worker, " asks more than ", kMostQuestions, " questions at a time"));
    }
    const auto asked = std::make_shared<Question>(
        Question{.worker = place.worker, .subject = subject, .words = question, .asked_at = Clock::now()});
    worker.questions[place.number] = asked;
    open_.push_back(asked);
    changed_.notify_one();
}

bool AskedQuestions::knows(const Place& place) {
    const std::lock_guard lock(mutex_);
    return find(place) != nullptr;
}

Soon<std::string> AskedQuestions::answer(const Place& place) {
    const std::lock_guard lock(mutex_);
    Question* const question = find(place);
    if (question == nullptr) {
        throw Error(cat("question ", place.number, " of worker ", place.worker, " is not known"));
    }
    question->asked_at = Clock::now();
    if (question->error) {
        throw Error(*question->error);
    }
    return question->is_answered ? Soon<std::string>(question->answer) : std::nullopt;
}

void AskedQuestions::forget_all_but(const std::set<int64_t>& open, const Place& newest) {
    const std::lock_guard lock(mutex_);
    if (const auto worker = workers_.find(newest.worker);
        worker != workers_.end() && worker->second.link == newest.link) {
        std::erase_if(worker->second.questions, [&](const auto& question) {
            return question.first <= newest.number && !open.contains(question.first);
        });
    }
}

// Of workers that did not come back.
void AskedQuestions::forget_the_forgotten() {
    for (auto& [name, worker] : workers_) {
        std::erase_if(worker.questions, [](const auto& question) {
            return question.second->is_answered && seconds_since(question.second->asked_at) > kForgottenSeconds;
        });
    }
    std::erase_if(workers_, [](const auto& worker) { return worker.second.questions.empty(); });
}

void AskedQuestions::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return ends_ || !open_.empty(); });
        if (ends_) {
            return;
        }
        const std::shared_ptr<Question> question = open_.front();
        open_.pop_front();
        lock.unlock();
        answer_question(*question);
        answered_();
        lock.lock();
    }
}

void AskedQuestions::answer_question(Question& question) {
    std::string answer;
    std::optional<std::string> error;
    try {
        answer = answers_.answer(question.worker, question.subject, question.words);
        if (std::ssize(answer) > kMostQuestionBytes) {
            error = cat("the answer to ", question.subject, " has ", answer.size(), " bytes, more than ",
                        kMostQuestionBytes);
        }
    } catch (const std::exception& thrown) {
        error = thrown.what();
    }
    const std::lock_guard lock(mutex_);
    question.is_answered = true;
    question.answer = std::move(answer);
    question.error = std::move(error);
    question.words.clear();
}

}  // namespace accrue
