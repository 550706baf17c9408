#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "accrue/dist/coordinator_desk.h"
#include "accrue/dist/grpc_options.h"
#include "accrue/dist/link.h"

// For the tests of links: what is true of all of them is tested with each.
namespace accrue::testing {

// Says what it was asked, or throws an Error with the question's words where the subject is "error".
class EchoAnswers final : public Answers {
public:
    [[nodiscard]] std::string answer(const std::string& worker, const std::string& subject,
                                     const std::string& question) override;
};

// A coordinator, somebody who answers, and the way to them.
class LinkPlace {
public:
    explicit LinkPlace(const Coordinator::Options& options) : desk_(options) {}
    virtual ~LinkPlace() = default;
    LinkPlace(const LinkPlace&) = delete;
    LinkPlace& operator=(const LinkPlace&) = delete;

    [[nodiscard]] CoordinatorDesk& desk() { return desk_; }
    [[nodiscard]] virtual std::unique_ptr<Link> link(const std::string& worker) = 0;
    // The coordinator is gone, for those who call it now and those who wait.
    virtual void end() { desk_.close(); }

private:
    CoordinatorDesk desk_;
};

struct LinkKind {
    std::string name;
    std::function<std::unique_ptr<LinkPlace>(const Coordinator::Options& options, Answers& answers)> place;
};
inline void PrintTo(const LinkKind& kind, std::ostream* out) {
    *out << kind.name;
}

class LinkTest : public ::testing::TestWithParam<LinkKind> {
protected:
    // Before anything else, where it is not to be three workers that may be silent for long.
    void open(const Coordinator::Options& options) { place_ = GetParam().place(options, answers_); }
    void open() { open({.silence_seconds = 60, .least_workers = 3}); }
    [[nodiscard]] CoordinatorDesk& desk() { return place_->desk(); }
    [[nodiscard]] LinkPlace& place() { return *place_; }

private:
    EchoAnswers answers_;
    std::unique_ptr<LinkPlace> place_;
};

// A worker that computes nothing, but calls its coordinator as a true one does.
class TestWorker {
public:
    TestWorker(std::string name, std::unique_ptr<Link> link) : name_(std::move(name)), link_(std::move(link)) {}

    [[nodiscard]] Link& link() { return *link_; }
    [[nodiscard]] const Roster& roster() const { return roster_; }
    // With the others, wherever it was before.
    const Roster& meet();
    // Of its next call.
    [[nodiscard]] CallPlace next_place();
    // Begins a window, computes what it is given and agrees with the others. The grains that it was given; `everyone` becomes
    // everybody's ledger.
    [[nodiscard]] std::set<int64_t> compute(const WindowRecord& record, GrainLedger& everyone);
    // On sums that add up, or, where one lies, do not.
    [[nodiscard]] Verdict vote(int64_t attempt, uint64_t lie = 0);
    // It is killed.
    void end() { link_.reset(); }

private:
    std::string name_;
    std::unique_ptr<Link> link_;
    Roster roster_;
    int64_t call_ = 0;
};

inline const JoinTerms kTestTerms{.program_version = "0.1.0", .run = "runs/small", .token = "bread and salt"};

// The first optimizer step, of so many grains.
[[nodiscard]] WindowRecord window_of(int64_t grains);
inline constexpr int64_t kTensorsOfWindow = 2;

}  // namespace accrue::testing
