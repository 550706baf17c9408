#include "accrue/assess/explain_parting.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/checkpoint/checkpoint.h"

namespace accrue {
namespace {

using Finding = std::optional<std::string>;

// The newest step, at most `last`, for which both runs have a checkpoint; 0 = none.
int64_t common_checkpoint(const std::array<RunFolder, 2>& runs, int64_t last) {
    const std::vector<int64_t> first = list_checkpoints(runs[0].checkpoints());
    const std::vector<int64_t> second = list_checkpoints(runs[1].checkpoints());
    std::vector<int64_t> both;
    std::set_intersection(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(both));
    const auto end = std::upper_bound(both.begin(), both.end(), last);
    return end == both.begin() ? 0 : *std::prev(end);
}

// The first tensor of a checkpoint whose weights differ.
Finding compare_weights(const std::array<RunFolder, 2>& runs, int64_t step) {
    const CheckpointReader first(checkpoint_path(runs[0].checkpoints(), step));
    const CheckpointReader second(checkpoint_path(runs[1].checkpoints(), step));
    const SafetensorsFile& a = first.file("weights");
    const SafetensorsFile& b = second.file("weights");
    std::vector<float> left;
    std::vector<float> right;
    for (const auto& [name, tensor] : a.tensors()) {
        if (!b.tensors().contains(name) || b.at(name).shape != tensor.shape) {
            return fmt::format("the runs train models of different shapes: {} is not the same tensor in both", name);
        }
        left.resize(static_cast<size_t>(tensor.elements()));
        right.resize(left.size());
        a.read_floats(name, left);
        b.read_floats(name, right);
        const auto place = std::mismatch(left.begin(), left.end(), right.begin());
        if (place.first != left.end()) {
            return fmt::format("the weights in checkpoint step-{} differ, first in {}: element {} is {} and {}", step,
                               name, place.first - left.begin(), *place.first, *place.second);
        }
    }
    return std::nullopt;
}

Finding compare_data(const ReplayedStep& a, const ReplayedStep& b) {
    for (size_t grain = 0; grain < std::min(a.grain_data.size(), b.grain_data.size()); ++grain) {
        if (a.grain_data[grain] != b.grain_data[grain]) {
            return fmt::format("step {}: grain {} reads other tokens: samples {} and samples {}", a.report.step, grain,
                               fmt::join(a.grain_samples[grain], ", "), fmt::join(b.grain_samples[grain], ", "));
        }
    }
    return a.grain_data.size() == b.grain_data.size()
               ? Finding()
               : fmt::format("step {}: the windows have {} and {} grains", a.report.step, a.grain_data.size(),
                             b.grain_data.size());
}

Finding compare_grains(const ReplayedStep& a, const ReplayedStep& b, const std::vector<std::string>& parameters) {
    for (int64_t grain = 0; grain < a.ledger.grains(); ++grain) {
        const std::string name = fmt::format("step {}: grain {} (samples {})", a.report.step, grain,
                                             fmt::join(a.grain_samples[static_cast<size_t>(grain)], ", "));
        for (int64_t tensor = 0; tensor < a.ledger.tensors(); ++tensor) {
            const GrainRecord& left = a.ledger.record(grain, tensor);
            const GrainRecord& right = b.ledger.record(grain, tensor);
            if (!same_record(a.ledger, b.ledger, grain, tensor)) {
                return fmt::format("{} has another gradient, first of {}: its norm is {:.17g} and {:.17g}", name,
                                   parameters[static_cast<size_t>(tensor)], std::sqrt(left.squares),
                                   std::sqrt(right.squares));
            }
        }
        if (!same_loss(a.ledger, b.ledger, grain)) {
            return fmt::format("{} has another loss: {:.17g} and {:.17g}", name, a.ledger.grain(grain).loss_sum,
                               b.ledger.grain(grain).loss_sum);
        }
    }
    return std::nullopt;
}

// What first goes another way in one step of both runs.
Finding compare_step(const ReplayedStep& a, const ReplayedStep& b, const std::vector<std::string>& parameters) {
    if (a.weights_before != b.weights_before) {
        return fmt::format("the weights before step {} differ already", a.report.step);
    }
    if (auto data = compare_data(a, b)) {
        return data;
    }
    if (auto grains = compare_grains(a, b, parameters)) {
        return grains;
    }
    if (a.sums != b.sums) {
        return fmt::format("step {}: the grains are the same, but their sums are not: another kind of sums, or units",
                           a.report.step);
    }
    if (a.weights_after != b.weights_after) {
        return fmt::format("step {}: the gradients are the same, but not the update: rate {} and {}, beta2 {} and {}",
                           a.report.step, a.report.rate, b.report.rate, a.report.beta2, b.report.beta2);
    }
    return std::nullopt;
}

// What metrics.jsonl says about the loss of a step.
std::optional<double> recorded_loss(const RunFolder& run, int64_t step) {
    std::ifstream input(run.metrics());
    for (std::string text; std::getline(input, text);) {
        const auto json = nlohmann::json::parse(text, nullptr, false);
        if (json.is_object() && json.contains("step") && json["step"] == step && json["loss"].is_number()) {
            return json["loss"].get<double>();
        }
    }
    return std::nullopt;
}

// Both runs go the same way when computed again: one of them was disturbed.
std::vector<std::string> not_reproduced(const std::array<RunFolder, 2>& runs, int64_t step, const StepReport& report) {
    std::vector<std::string> findings = {
        fmt::format("computed again here, both runs give the same step {}, bit for bit", step)};
    for (const RunFolder& run : runs) {
        const auto loss = recorded_loss(run, step);
        if (loss && report.loss && *loss != *report.loss) {
            findings.push_back(
                fmt::format("{} recorded a loss of {} there, but it is {}: another machine, instruction "
                            "set or version, changed files, or a fault",
                            run.root.string(), *loss, *report.loss));
        }
    }
    return findings;
}

}  // namespace

std::vector<std::string> explain_parting(const std::array<RunFolder, 2>& runs, std::optional<int64_t> parting_step,
                                         const ProgramUnderTest& program,
                                         const std::function<void(const std::string& what)>& works) {
    works("checkpoints");
    const int64_t from = common_checkpoint(runs, parting_step ? *parting_step - 1 : INT64_MAX);
    if (from > 0) {
        if (const auto finding = compare_weights(runs, from)) {
            return {*finding};
        }
    }
    if (!parting_step) {
        return {};
    }
    try {
        std::array<Replay, 2> replays;
        for (size_t run = 0; run < 2; ++run) {
            replays[run] = replay(runs[run], from, *parting_step, program, [&](int64_t step) {
                works(fmt::format("step {} of {} again", step, runs[run].root.string()));
            });
        }
        if (replays[0].parameters != replays[1].parameters) {
            return {"the runs train models of different shapes"};
        }
        for (size_t step = 0; step < replays[0].steps.size(); ++step) {
            if (auto finding = compare_step(replays[0].steps[step], replays[1].steps[step], replays[0].parameters)) {
                return {fmt::format("computed again from {}:",
                                    from > 0 ? fmt::format("checkpoint step-{}", from) : "the start"),
                        *finding};
            }
        }
        return not_reproduced(runs, *parting_step, replays[0].steps.back().report);
    } catch (const Error& error) {
        return {fmt::format("the step cannot be computed again to find the grain: {}", error.what())};
    }
}

}  // namespace accrue
