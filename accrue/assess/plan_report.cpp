#include "accrue/assess/plan_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "accrue/assess/calibrate.h"
#include "accrue/base/error.h"
#include "accrue/kernels/gpus.h"
#include "accrue/model/parameters.h"
#include "accrue/train/engine.h"
#include "accrue/train/epoch.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/team/state_sharing.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

// The largest micro-batch that is looked at: far above where larger ones still help.
constexpr int64_t kMostReportedGrains = 64;

Rates rates_for(const RunInputs& inputs, Pool& pool, const PlanRequest& request, const PlanFindings& findings) {
    return request.typical ? Rates::typical(inputs.settings, pool.threads())
                           : measure_rates(inputs, pool, findings.budget.bytes - findings.base.held_bytes);
}

std::vector<int64_t> micro_batches_of(double window_grains) {
    const auto most = std::min(kMostReportedGrains, static_cast<int64_t>(window_grains));
    std::vector<int64_t> sizes;
    for (int64_t size = 1; size < most; size *= 2) {
        sizes.push_back(size);
    }
    sizes.push_back(std::max<int64_t>(most, 1));
    return sizes;
}

// The plan without limits first, as a run tries it first; then those that take less.
std::vector<Plan> all_plans(Planner& planner, const Rates& rates) {
    std::vector<Plan> plans = {planner.unlimited()};
    for (Plan& plan : planner.frontier(rates)) {
        if (plan.arena_bytes < plans.front().arena_bytes) {
            plans.push_back(std::move(plan));
        }
    }
    return plans;
}

double exchange_seconds(const PlanFindings& findings) {
    return findings.team ? findings.team->exchange_seconds : 0;
}

// The chosen plan and every cut that fits.
void measure_rows(const RunInputs& inputs, Pool& pool, const StateSharing& sharing, PlanFindings& findings) {
    std::vector<Plan> plans;
    std::vector<PlanRow*> rows;
    const auto add = [&](PlanRow& row) {
        if (row.peak_bytes <= findings.budget.bytes) {
            plans.push_back(row.plan);
            rows.push_back(&row);
        }
    };
    add(findings.frontier[*findings.chosen]);
    std::for_each(findings.cuts.begin(), findings.cuts.end(), add);
    const std::vector<double> seconds = measure_plans(inputs, pool, plans, findings.process_grains, sharing);
    for (size_t i = 0; i < rows.size(); ++i) {
        rows[i]->measured_seconds = seconds[i] + exchange_seconds(findings);
    }
}

Json row_json(const PlanFindings& findings, const PlanRow& row) {
    const auto tokens = static_cast<double>(findings.window_tokens);
    const double hours = row.seconds * static_cast<double>(findings.steps) / 3600;
    Json json = {{"planned_peak_bytes", row.peak_bytes},
                 {"arena_bytes", row.plan.arena_bytes},
                 {"activation_bytes", row.plan.arena_bytes - row.plan.resident_bytes},
                 {"fits", row.peak_bytes <= findings.budget.bytes},
                 {"blocks_recomputed", row.plan.blocks_with(Recompute::block)},
                 {"blocks_recomputed_cheaply", row.plan.blocks_with(Recompute::cheap)},
                 {"loss_rows", row.plan.choices.loss_rows},
                 {"weight_copy", row.plan.choices.weight_copy == Choices::WeightCopy::kept},
                 {"micro_batch_grains", row.plan.micro_batch_grains},
                 {"accumulation_steps", accumulation_steps(findings, row)},
                 {"window_seconds", row.seconds},
                 {"tokens_per_second", tokens / row.seconds},
                 {"updates_per_hour", 3600 / row.seconds},
                 {"hours", hours}};
    if (findings.price_per_hour) {
        json["cost"] = hours * *findings.price_per_hour;
    }
    if (row.measured_seconds) {
        json["measured_window_seconds"] = *row.measured_seconds;
        json["measured_tokens_per_second"] = tokens / *row.measured_seconds;
    }
    return json;
}

Json resident_json(const PlanFindings& findings, const PlanRow& row) {
    const ArenaParts& parts = row.plan.parts;
    return {{"weights", parts.weights},
            {"copy", parts.copy},
            {"sums", parts.sums},
            {"moments", parts.moments},
            {"on_host", row.plan.host_bytes},
            {"waiting", parts.waiting},
            {"tables", parts.tables},
            {"device", parts.device},
            {"process", row.peak_bytes - row.plan.arena_bytes - exchange_bytes(findings)},
            {"exchange", exchange_bytes(findings)},
            {"process_now", findings.base.held_bytes}};
}

Json transient_json(const Plan& plan) {
    const ArenaParts& parts = plan.parts;
    return {{"blocks", parts.blocks},
            {"activations", std::accumulate(parts.blocks.begin(), parts.blocks.end(), int64_t{0})},
            {"batch", parts.batch},
            {"loss", parts.loss},
            {"workspace", parts.workspace},
            {"largest_at_once", plan.arena_bytes - plan.resident_bytes}};
}

TeamPlan team_plan(const TeamRequest& request, const RunInputs& inputs) {
    TeamPlan team{.request = request,
                  .share = share_of(request, inputs.settings),
                  .exchange = exchange_of(inputs.settings, *inputs.model, request.workers),
                  .planned_exchange_bytes = exchange_bytes_of(request, inputs.settings, *inputs.model)};
    team.exchange_seconds = exchange_seconds_of(request, team.exchange, threads_of(inputs.settings));
    return team;
}

Json team_json(const PlanFindings& findings) {
    const TeamPlan& team = *findings.team;
    return {{"workers", team.request.workers},
            {"threads_each", team.share.threads},
            {"link_bits_per_second", team.request.link ? Json(*team.request.link) : Json()},
            {"worker_peak_bytes", shown_row(findings).peak_bytes},
            {"exchange_held_bytes", team.exchange.held_bytes},
            {"exchange_sent_bytes", team.exchange.sent_bytes},
            {"exchange_sent_bytes_of_all", team.exchange.all_sent_bytes},
            {"exchange_seconds", team.exchange_seconds},
            {"window_seconds", shown_row(findings).seconds},
            {"window_seconds_of_one_worker", team.alone_seconds}};
}

// The GPU that was planned for, if it is one of this machine.
std::string gpu_text(const DeviceName& device) {
    if (device.kind != DeviceKind::cuda) {
        return "";
    }
    for (const Gpu& gpu : gpus_of_machine().found) {
        if (gpu.number == device.gpu) {
            return cat(text_of(device), ", ", gpu.name);
        }
    }
    return cat(text_of(device), ", a GPU that is not in this machine");
}

Json machine_json(const PlanFindings& findings) {
    const MemoryFacts& facts = findings.machine;
    Json groups = Json::array();
    for (const MemoryFacts::Group& group : facts.groups) {
        groups.push_back({{"name", group.name}, {"limit", group.limit_bytes}, {"used", group.used_bytes}});
    }
    const auto or_null = [](const std::optional<int64_t>& value) { return value ? Json(*value) : Json(); };
    return {{"physical", facts.physical_bytes},
            {"available", or_null(facts.available_bytes)},
            {"control_groups", groups},
            {"address_limit", or_null(facts.address_limit)},
            {"data_limit", or_null(facts.data_limit)},
            {"device", text_of(findings.device)},
            {"budget", findings.budget.bytes},
            {"budget_reason", findings.budget.reason}};
}

}  // namespace

int64_t exchange_bytes(const PlanFindings& findings) {
    return findings.team ? findings.team->planned_exchange_bytes : 0;
}

int64_t accumulation_steps(const PlanFindings& findings, const PlanRow& row) {
    return static_cast<int64_t>(std::ceil(findings.process_grains / static_cast<double>(row.plan.micro_batch_grains)));
}

const PlanRow& shown_row(const PlanFindings& findings) {
    return findings.chosen ? findings.frontier[*findings.chosen] : findings.frontier.back();
}

PlanFindings find_plans(const RunInputs& inputs, const MemoryBound& machine, const PlanRequest& request) {
    const Settings& settings = inputs.settings;
    if (request.team) {
        (void)settings_of_worker(*request.team, settings, machine, *inputs.model);  // what a run would refuse
    }
    const int64_t threads = request.team ? share_of(*request.team, settings).threads : settings.compute.threads;
    Pool pool(static_cast<int>(threads));
    const StateSharing sharing = request.team ? sharing_of(settings, request.team->workers) : StateSharing();
    Planner planner(settings_to_plan(inputs), inputs.model, inputs.longest_sample(), pool.threads(), sharing);
    PlanFindings findings;
    findings.machine = read_memory_facts();
    findings.device = device_of(settings.compute).name;
    findings.gpu = gpu_text(findings.device);
    findings.base = ProcessBase::measure(planner.device());
    findings.budget = request.team ? memory_of_worker(*request.team, settings, machine) : budget_of(settings, machine);
    findings.window_grains = planner.window_grains();
    findings.process_grains = findings.window_grains;
    if (request.team) {
        findings.team = team_plan(*request.team, inputs);
        findings.process_grains = grains_of_each(findings.window_grains, request.team->workers);
        findings.base.held_bytes += findings.team->planned_exchange_bytes;
    }
    findings.window_tokens = planner.window_tokens();
    findings.steps = settings.schedule.steps;
    findings.host_state = settings.compute.host_state;
    findings.price_per_hour = request.price_per_hour;
    findings.title = fmt::format("{}, {} parameters, {}, sums {}, moments {}", name_of(settings.model),
                                 inputs.model->parameters().elements(), word_of(settings.compute.dtype),
                                 word_of(settings.compute.sums), word_of(settings.optimizer.moments));
    findings.window = fmt::format(
        "{}, up to {} tokens each, {} grain(s) of {} sample(s)",
        settings.window.tokens > 0 ? fmt::format("{} tokens in samples", settings.window.tokens)
                                   : fmt::format("{} samples", settings.window.samples),
        inputs.longest_sample(), static_cast<int64_t>(findings.window_grains), settings.window.grain_samples);
    findings.epoch = epoch_text(settings, *inputs.train);

    const double crowding = request.team ? crowding_of(*request.team, settings) : 1;
    const Rates rates = rates_for(inputs, pool, request, findings);
    const auto row_of = [&](Plan plan) {
        PlanRow row{.plan = std::move(plan)};
        row.peak_bytes = std::max(findings.base.peak_bytes, process_bytes(findings.base, planner, row.plan));
        row.seconds = crowding * row.plan.window_seconds(findings.process_grains, rates) + exchange_seconds(findings);
        return row;
    };
    for (Plan& plan : all_plans(planner, rates)) {
        findings.frontier.push_back(row_of(std::move(plan)));
    }
    const auto fits = [&](const PlanRow& row) { return row.peak_bytes <= findings.budget.bytes; };
    const auto found = std::find_if(findings.frontier.begin(), findings.frontier.end(), fits);
    if (found != findings.frontier.end()) {
        findings.chosen = static_cast<size_t>(found - findings.frontier.begin());
    } else {
        findings.refusal = refusal_text(findings.budget, findings.base, planner, findings.frontier.back().plan);
    }
    if (findings.chosen && request.host) {
        const PlanRow& chosen = findings.frontier[*findings.chosen];
        findings.refusal = host_refusal_text(*request.host, ProcessBase::measure(), planner, chosen.plan);
        findings.chosen = findings.refusal.empty() ? findings.chosen : std::nullopt;
    }
    const Choices choices = shown_row(findings).plan.choices;
    for (const int64_t grains : micro_batches_of(findings.process_grains)) {
        findings.cuts.push_back(row_of(planner.plan_of(choices, grains)));
    }
    if (findings.team) {
        const Plan& shown = shown_row(findings).plan;  // with all of the update
        Planner alone(settings_to_plan(inputs), inputs.model, inputs.longest_sample(), pool.threads());
        findings.team->alone_seconds =
            alone.plan_of(shown.choices, shown.micro_batch_grains).window_seconds(findings.window_grains, rates);
    }
    if (request.measures && findings.chosen) {
        measure_rows(inputs, pool, sharing, findings);
    }
    return findings;
}

Json plan_json(const PlanFindings& findings) {
    const PlanRow& shown = shown_row(findings);
    Json json = {{"planned_peak_bytes", shown.peak_bytes},
                 {"job", findings.title},
                 {"window", findings.window},
                 {"epoch", findings.epoch},
                 {"memory", machine_json(findings)},
                 {"resident", resident_json(findings, shown)},
                 {"transient", transient_json(shown.plan)},
                 {"frontier", Json::array()},
                 {"chosen", findings.chosen ? row_json(findings, shown) : Json()},
                 {"cuts", Json::array()}};
    for (const PlanRow& row : findings.frontier) {
        json["frontier"].push_back(row_json(findings, row));
    }
    for (const PlanRow& row : findings.cuts) {
        Json cut = row_json(findings, row);
        cut["synchronisations"] = 1;
        cut["synchronisations_without_accumulation"] = accumulation_steps(findings, row);
        json["cuts"].push_back(std::move(cut));
    }
    if (findings.team) {
        json["workers"] = team_json(findings);
    }
    if (!findings.refusal.empty()) {
        json["refusal"] = findings.refusal;
    }
    return json;
}

}  // namespace accrue
