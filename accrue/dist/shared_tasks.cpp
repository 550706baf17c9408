#include "accrue/dist/shared_tasks.h"

#include <algorithm>

namespace accrue {

Soon<Task> SharedTasks::after(size_t rank, int64_t number, const Task& newest) {
    if (number != 0 && number != answered_) {
        throw Error(cat("worker ", workers_[rank], " asks for the task after ", number, ", but in this roster ",
                        answered_ == 0 ? "none is done: it must ask for the first" : cat(answered_, " is done")));
    }
    if (task_.number == answered_ && newest.number > answered_) {
        task_ = newest;
    }
    return task_.number > number ? Soon<Task>(task_) : std::nullopt;
}

void SharedTasks::require_same_as_rank_0() const {
    for (size_t rank = 1; said_.front() && rank < workers_.size(); ++rank) {
        if (said_[rank] && said_[rank] != said_.front()) {
            throw Error(cat("task ", task_.number, ": worker ", workers_[rank], " says \"", *said_[rank],
                            "\", but worker ", workers_.front(), " says \"", *said_.front(),
                            "\": bits differ. All workers need the same program and the same kind of processor."));
        }
    }
}

Soon<std::string> SharedTasks::done(size_t rank, int64_t number, const std::string& said) {
    if (number > 0 && number == answered_) {
        return answer_;
    }
    if (number < 1 || number != task_.number) {
        throw Error(cat("worker ", workers_[rank], " has done task ", number, ", but was given task ", task_.number));
    }
    said_[rank] = said;
    require_same_as_rank_0();
    if (std::find(said_.begin(), said_.end(), std::nullopt) != said_.end()) {
        return std::nullopt;
    }
    answered_ = number;
    answer_ = said;
    std::fill(said_.begin(), said_.end(), std::nullopt);
    return answer_;
}

}  // namespace accrue
