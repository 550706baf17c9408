#include "accrue/cli/team_options.h"

#include "accrue/base/error.h"
#include "accrue/base/link_speed.h"
#include "accrue/train/settings_words.h"

namespace accrue {

void add_team_options(CLI::App& command, int64_t& workers, std::string& link) {
    command.add_option("--workers", workers, "For so many workers, each with a part of the window")
        ->check(CLI::Range(int64_t{1}, kMostWorkers));
    command
        .add_option("--link", link,
                    "With --workers: each is a machine like this one, with a network link of this speed (1Gbit, "
                    "100Mbit/s); without, they are processes of this machine")
        ->type_name("SPEED");
}

std::optional<TeamRequest> asked_team(int64_t workers, const std::string& link) {
    if (link.empty()) {
        return workers > 0 ? std::optional(TeamRequest{.workers = workers}) : std::nullopt;
    }
    const std::optional<double> speed = parse_link_speed(link);
    if (!speed) {
        throw Error(
            cat("--link must be how fast a network link is, in bits a second, like 1Gbit or 100Mbit/s, but is \"", link,
                "\"."));
    }
    if (workers == 0) {
        throw Error("--link is the network between workers: say with --workers how many there are.");
    }
    return TeamRequest{.workers = workers, .link = speed};
}

void require_for_workers(const Settings::Compute& compute) {
    if (compute.sums != SumKind::exact) {
        throw Error(cat("compute.sums is \"", word_of(compute.sums),
                        "\", but only exact sums of several workers add up alike in every order. Set compute.sums = "
                        "\"exact\", or leave --workers out."));
    }
}

void settle_for_launcher(Settings::Compute& compute) {
    if (!compute.device) {
        compute.device = DeviceName(DeviceKind::cpu);
    }
    if (compute.device->kind == DeviceKind::cuda) {
        throw Error(cat("compute.device is \"", text_of(*compute.device),
                        "\", but workers that a launcher starts compute on processors only. Set compute.device = "
                        "\"cpu\", or start them with accrue train --workers on one machine, or with accrue serve and "
                        "accrue work on several."));
    }
}

}  // namespace accrue
