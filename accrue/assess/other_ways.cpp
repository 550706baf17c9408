#include "accrue/assess/other_ways.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "accrue/base/random.h"

namespace accrue {
namespace {

using Promise = OtherWay::Promise;

int64_t parts_of(int64_t grains, int64_t each) {
    return (grains + each - 1) / each;
}

std::vector<int64_t> shuffled_grains(int64_t grains, uint64_t seed) {
    std::vector<int64_t> order(static_cast<size_t>(grains));
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return mix(seed, static_cast<uint64_t>(a)) < mix(seed, static_cast<uint64_t>(b));
    });
    return order;
}

std::vector<OtherWay> other_cuts(WindowLab& lab) {
    std::vector<OtherWay> ways;
    std::set<int64_t> tried = {lab.most_at_once()};
    for (const int64_t parts : {int64_t{2}, int64_t{3}, int64_t{4}, int64_t{8}, lab.grains()}) {
        const int64_t each = parts_of(lab.grains(), parts);
        if (each < lab.most_at_once() && tried.insert(each).second) {
            ways.push_back({.name = each == 1 ? fmt::format("one grain at a time, {} micro-batches", lab.grains())
                                              : fmt::format("cut in {} micro-batches", parts_of(lab.grains(), each)),
                            .promise = Promise::all_sums,
                            .compute = [&lab, each] { return lab.by_step({.micro_batch_grains = each}); }});
        }
    }
    return ways;
}

std::vector<OtherWay> other_orders(WindowLab& lab, int64_t each) {
    std::vector<OtherWay> ways;
    for (const uint64_t seed : {1, 2}) {
        ways.push_back({.name = seed == 1 ? "grains in shuffled order" : "grains in another shuffled order",
                        .promise = Promise::exact_sums,
                        .compute = [&lab, each, seed] {
                            return lab.in_order({.micro_batch_grains = each}, shuffled_grains(lab.grains(), seed));
                        }});
    }
    return ways;
}

std::vector<OtherWay> several_workers(WindowLab& lab, int64_t each) {
    const bool can_add = lab.engine().sum.kind() == SumKind::exact;
    std::vector<OtherWay> ways;
    for (const int64_t workers : {2, 3}) {
        OtherWay way{
            .name = fmt::format("{} workers, their sums added", workers),
            .promise = Promise::exact_sums,
            .compute = [&lab, each, workers] { return lab.by_workers({.micro_batch_grains = each}, workers); }};
        if (!can_add) {
            way.name = fmt::format("{} workers: only exact sums add", workers);
            way.compute = nullptr;
        }
        ways.push_back(std::move(way));
    }
    return ways;
}

OtherWay stopped_half_way(WindowLab& lab, int64_t each) {
    return {.name = "stopped half way, saved, resumed", .promise = Promise::all_sums, .compute = [&lab, each] {
                return lab.resumed({.micro_batch_grains = each}, {.threads = lab.threads() == 1 ? 2 : 1});
            }};
}

std::vector<OtherWay> other_threads(WindowLab& lab) {
    std::vector<OtherWay> ways;
    for (const int threads : {1, 2, 3}) {
        if (threads != lab.threads()) {
            ways.push_back({.name = threads == 1 ? "1 thread" : fmt::format("{} threads", threads),
                            .promise = Promise::all_sums,
                            .compute = [&lab, threads] { return lab.by_step({.threads = threads}); }});
        }
    }
    return ways;
}

OtherWay without_graphs(WindowLab& lab) {
    return {.name = "without graphs", .promise = Promise::all_sums, .compute = [&lab] {
                return lab.by_step({.graphs = DeviceChoice::Graphs::off});
            }};
}

struct NamedChoices {
    std::string name;
    Choices choices;
};

// Whether something is kept or computed again, and what the run itself does not choose already.
std::vector<NamedChoices> other_choices(const Choices& own, const Settings& settings, int64_t layers) {
    std::vector<NamedChoices> result;
    for (const Recompute recompute : {Recompute::nothing, Recompute::cheap, Recompute::block}) {
        Choices choices = own;
        choices.blocks.assign(static_cast<size_t>(layers), recompute);
        const bool is_own = choices.blocks == own.blocks || (own.blocks.empty() && recompute == Recompute::nothing);
        if (!is_own) {
            result.push_back({fmt::format("recompute {}", word_of(recompute)), choices});
        }
    }
    if (layers > 1) {
        Choices mixed = own;
        mixed.blocks.assign(static_cast<size_t>(layers), Recompute::block);
        mixed.blocks.front() = Recompute::cheap;
        mixed.blocks.back() = Recompute::nothing;
        result.push_back({"recompute different things in the layers", mixed});
    }
    if (own.waiting_grains > 0) {
        Choices at_once = own;
        at_once.waiting_grains = 0;
        result.push_back({"each grain's gradients added at once", at_once});
        at_once.waiting_grains = 2;
        if (own.waiting_grains > 2) {
            result.push_back({"gradients of 2 grains added together", at_once});
        }
    }
    Choices small_loss = own;
    small_loss.loss_rows = std::max<int64_t>(1, own.loss_rows / 5);
    result.push_back({fmt::format("loss in chunks of {} rows", small_loss.loss_rows), small_loss});
    if (settings.compute.dtype != DType::fp32) {
        const bool kept = own.weight_copy == Choices::WeightCopy::kept;
        Choices copy = own;
        copy.weight_copy = kept ? Choices::WeightCopy::converted_per_tile : Choices::WeightCopy::kept;
        result.push_back({kept ? "weights rounded tile by tile" : "weights rounded once", copy});
    }
    return result;
}

OtherWay with_choices(WindowLab& lab, const NamedChoices& named) {
    const auto at_once = lab.memory().most_at_once_with(named.choices);
    if (!at_once) {
        return {.name = named.name + ": does not fit into memory", .promise = Promise::all_sums, .compute = nullptr};
    }
    return {.name = named.name, .promise = Promise::all_sums, .compute = [&lab, choices = named.choices, at_once] {
                return lab.by_step({.micro_batch_grains = *at_once, .choices = choices});
            }};
}

}  // namespace

std::string whole_name(const WindowLab& lab) {
    const int64_t parts = parts_of(lab.grains(), lab.most_at_once());
    return parts == 1 ? "whole, in one micro-batch" : fmt::format("{} micro-batches: what memory holds", parts);
}

std::vector<OtherWay> other_ways(WindowLab& lab, const Settings& settings, int64_t layers) {
    std::vector<OtherWay> ways;
    const auto add = [&](std::vector<OtherWay> more) { std::move(more.begin(), more.end(), std::back_inserter(ways)); };
    const int64_t each = std::min(lab.most_at_once(), parts_of(lab.grains(), 4));
    add(other_cuts(lab));
    if (lab.grains() > 1) {  // one grain has one order, one worker and no middle
        add(other_orders(lab, each));
        add(several_workers(lab, each));
        add({stopped_half_way(lab, each)});
    }
    if (device_of(settings.compute).name.kind == DeviceKind::cuda) {
        add({without_graphs(lab)});
    } else {
        add(other_threads(lab));
    }
    for (const NamedChoices& named : other_choices(lab.memory().choices(), settings, layers)) {
        add({with_choices(lab, named)});
    }
    return ways;
}

}  // namespace accrue
