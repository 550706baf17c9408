#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accrue/dist/messages.h"

namespace accrue {

// What the members of one roster do, one task after another: what one of them is given, all are given, and the next one only when
// all have said the same of it. Members are ranks.
class SharedTasks {
public:
    // By rank.
    explicit SharedTasks(std::vector<std::string> workers) : workers_(std::move(workers)), said_(workers_.size()) {}

    // A member asks for the task after the one of that number, which is done in this roster (0 = the first). `newest` is the
    // newest that there is.
    [[nodiscard]] Soon<Task> after(size_t rank, int64_t number, const Task& newest);
    // What a member says of a task that it has done. Ready when all have said the same. An Error if two say different things, or
    // if it is not a task of this roster.
    [[nodiscard]] Soon<std::string> done(size_t rank, int64_t number, const std::string& said);

private:
    void require_same_as_rank_0() const;

    std::vector<std::string> workers_;
    Task task_;                                     // that is given now; number 0 = none yet
    std::vector<std::optional<std::string>> said_;  // of it, by rank
    int64_t answered_ = 0;                          // the last task of which all have said the same
    std::string answer_;
};

}  // namespace accrue
