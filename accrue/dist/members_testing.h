#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "accrue/dist/gloo_mesh.h"

// For the tests of this folder: the members of a roster as threads of one process.
namespace accrue::testing {

// Keys and values in memory.
class MemoryStore : public KeyStore {
public:
    void set(const std::string& key, const std::string& value) override;
    [[nodiscard]] std::string get(const std::string& key, std::chrono::milliseconds limit) override;
    // As when the coordinator ends the roster: whoever waits learns it at once.
    void end();

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, std::string> values_;
    bool has_ended_ = false;
};

// How a member's work ended.
struct Outcome {
    enum class As { done, roster_changed, error };
    As as = As::done;
    std::string message;

    bool operator==(const Outcome&) const = default;
    bool operator==(As other) const { return as == other; }
};
void PrintTo(const Outcome& outcome, std::ostream* out);

// Calls work(rank) in a thread for each of so many.
[[nodiscard]] std::vector<Outcome> each_in_a_thread(int64_t size, const std::function<void(int64_t rank)>& work);

// Connects the members of a roster and calls work(rank, mesh) in a thread for each. Rank and size of the options do not count.
using MemberWork = std::function<void(int64_t rank, std::unique_ptr<Mesh>& mesh)>;
[[nodiscard]] std::vector<Outcome> in_roster(int64_t size, const MemberWork& work, const MeshOptions& options = {});

// Sums that lie in memory.
[[nodiscard]] IntegerSums sums_in(std::vector<int64_t>& values);
// What a member has computed in a window: integers of all 64 bits, so that sums overflow.
[[nodiscard]] std::vector<int64_t> contribution(int64_t rank, int64_t elements, int64_t window = 0);
[[nodiscard]] std::vector<int64_t> sum_of_contributions(int64_t size, int64_t elements, int64_t window = 0);

// What came once, and from whom to whom.
struct Disturbance {
    Arrival::Of of = Arrival::Of::contribution;
    int64_t from_rank = 0;
    int64_t to_rank = 0;
    std::function<void(const Arrival&, std::span<int64_t> values)> change;
};
// For the member that it happens to: its MeshOptions::disturb, which notes in is_done that it has. Of all others it is noted before.
[[nodiscard]] std::function<void(const Arrival&)> once(const Disturbance& disturbance, int64_t rank, bool& is_done);
// A member, and an owner of whose range it holds something else than was given.
using WrongRanges = std::set<std::pair<int64_t, int64_t>>;
[[nodiscard]] WrongRanges wrong_in(const std::vector<ExchangeChecks>& of_members);
// What may happen to sums of window 1 of so many elements: nothing, and what must show.
using NamedChange = std::pair<std::string, decltype(Disturbance::change)>;
[[nodiscard]] std::vector<NamedChange> changes_on_the_way(int64_t elements);

void expect_all_done(const std::vector<Outcome>& outcomes);

// Always: for tests in which nothing goes wrong, or nobody looks.
inline bool commit_all(const ExchangeChecks& /*checks*/) {
    return true;
}

}  // namespace accrue::testing
