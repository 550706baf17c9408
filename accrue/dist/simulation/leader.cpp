#include "accrue/dist/simulation/leader.h"

#include <algorithm>

namespace accrue::simulation {
namespace {

// In the mean. Meanwhile others may come and begin with the old task.
constexpr int64_t kTurnsToNotice = 20;

}  // namespace

void Leader::set_task() {
    world_.coordinator().set_task(std::to_string(step_));
    ++task_;
}

void Leader::act() {
    if (term_ != world_.coordinator().term()) {
        term_ = world_.coordinator().term();
        task_ = 0;
        set_task();
    }
    const auto& [term, number, words] = world_.done_task();
    if (term != term_ || number != task_ || !world_.dice().one_in(kTurnsToNotice)) {
        return;
    }
    if (words.find("stopped") == std::string::npos) {
        is_through_ = is_through_ || step_ == last_step_;
        step_ = std::min(last_step_, step_ + world_.dice().between(1, 3));
    }
    set_task();
}

}  // namespace accrue::simulation
