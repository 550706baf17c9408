#pragma once

#include <optional>
#include <string>

#include "accrue/base/clock.h"
#include "accrue/dist/link.h"
#include "accrue/dist/workers.h"

namespace accrue {

// What a worker's exchanges have taken since it began.
struct ExchangeTotals {
    double seconds = 0;
    int64_t sent_bytes = 0;
};

// A worker's sight of the roster that it is in: its number, and a number for each of its calls.
class Membership {
public:
    explicit Membership(std::string worker) : worker_(std::move(worker)) {}

    void enter(Roster roster) { roster_ = std::move(roster); }
    [[nodiscard]] const Roster& roster() const { return roster_; }
    [[nodiscard]] const std::string& worker() const { return worker_; }
    [[nodiscard]] CallPlace next_call() {
        return {.worker = worker_, .term = roster_.term, .roster = roster_.number, .call = ++calls_};
    }

private:
    std::string worker_;
    Roster roster_;
    int64_t calls_ = 0;
};

// Which exchange of sums it is.
struct ExchangeName {
    int64_t term = 0;
    int64_t roster = 0;
    int64_t step = 0;
    int64_t attempt = 0;
    bool operator==(const ExchangeName&) const = default;
};

// One of several workers: its grains by the coordinator's leases, everybody's sums by the roster's mesh. Where it throws, the
// own sums are as they were.
class LinkedWorkers final : public Assignment, public Reducer {
public:
    // All must outlive it.
    LinkedWorkers(Link& link, Membership& membership) : link_(link), membership_(membership) {}

    // The mesh of the present roster, which must outlive the calls that follow.
    void use(Mesh& mesh) { mesh_ = &mesh; }
    [[nodiscard]] Workers workers() { return {.assignment = *this, .reducer = *this}; }
    [[nodiscard]] const ExchangeTotals& totals() const { return totals_; }
    // What belongs to an exchange and is done by others in the mesh counts too.
    template <class Work>
    void count(const Work& work) {
        const auto start = Clock::now();
        const int64_t sent_before = mesh_->sent_bytes();
        work();
        totals_.seconds += seconds_since(start);
        totals_.sent_bytes += mesh_->sent_bytes() - sent_before;
    }

    void begin(const WindowRecord& window, const GrainLedger& mine) override;
    [[nodiscard]] std::vector<int64_t> next(int64_t most) override;
    [[nodiscard]] LikelyGrains likely_next(int64_t most) const override;
    [[nodiscard]] Agreement agree(const GrainLedger& mine, Wish wish) override;
    void add_everyones(GradientSum& sum) override;
    [[nodiscard]] Role gather(GradientSum& sum) override;

    // From now on members share the state: sums go to the keepers of ranges, and add_everyones() takes those of what is kept here.
    // What was exchanged before is forgotten.
    void share(std::vector<ElementRange> ranges, RangeKeepers keepers);
    [[nodiscard]] std::optional<double> norm() const override { return shared_ ? std::optional(norm_) : std::nullopt; }
    // The last exchange that this worker has voted on: everybody's sums of what it keeps are here until the next, whether or not it
    // heard the verdict. Nothing: there is none, or it did not count.
    [[nodiscard]] const std::optional<ExchangeName>& voted() const { return voted_; }
    // The last one that it knows to count.
    [[nodiscard]] const std::optional<ExchangeName>& committed() const { return committed_; }
    // For a worker that did not hear that the exchange it voted on counts: takes its sums.
    void take_voted(GradientSum& sum);

private:
    void add_to_keepers(GradientSum& sum);
    [[nodiscard]] double norm_of(const GradientSum& sum);
    // Until an attempt counts: attempt(number, seed) is the verdict on it.
    template <class Attempt>
    void until_committed(const Attempt& attempt);
    // Whether the total takes the place of the own sums.
    enum class Total { is_taken, is_left };
    void exchange(GradientSum& sum, Total total, std::span<std::byte> on_device);

    Link& link_;
    Membership& membership_;
    Mesh* mesh_ = nullptr;
    WindowRecord record_;
    std::vector<int64_t> last_;  // that were given
    Coordinator::Agreed agreed_;
    ExchangeTotals totals_;

    std::optional<SharedRanges> shared_;
    std::vector<std::vector<int64_t>> kept_sums_;  // by range; empty = not kept here
    double norm_ = 0;
    std::optional<ExchangeName> voted_;
    std::optional<ExchangeName> committed_;
};

}  // namespace accrue
