#include "accrue/assess/team_request.h"

#include <algorithm>
#include <cmath>

#include "accrue/base/pool.h"

namespace accrue {

int64_t threads_of(const Settings& settings) {
    return Pool(static_cast<int>(settings.compute.threads)).threads();
}

WorkerShare share_of(const TeamRequest& team, const Settings& settings) {
    const int64_t threads = threads_of(settings);
    const int64_t of_a_machine = team.link ? 1 : team.workers;
    return {
        .workers = team.workers, .of_a_machine = of_a_machine, .threads = std::max<int64_t>(1, threads / of_a_machine)};
}

double crowding_of(const TeamRequest& team, const Settings& settings) {
    const WorkerShare share = share_of(team, settings);
    const auto wanted = static_cast<double>(share.of_a_machine * share.threads);
    return std::max(1.0, wanted / static_cast<double>(threads_of(settings)));
}

double exchange_seconds_of(const TeamRequest& team, const ExchangeCost& cost, int64_t threads) {
    return team.link ? seconds_over_link(cost, *team.link) : seconds_over_loopback(cost, threads);
}

double grains_of_each(double window_grains, int64_t workers) {
    return workers > 1 ? std::ceil(window_grains / static_cast<double>(workers)) : window_grains;
}

}  // namespace accrue
