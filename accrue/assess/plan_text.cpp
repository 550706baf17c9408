#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "accrue/assess/plan_report.h"
#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/base/link_speed.h"

namespace accrue {
namespace {

std::string bytes_line(std::string_view name, int64_t bytes, std::string_view note = "") {
    return fmt::format("  {:<24}{:>12}{}{}\n", name, format_bytes(bytes), note.empty() ? "" : "   ", note);
}

std::string allowed_text(const PlanFindings& findings) {
    return fmt::format("may take:   {} ({})\n",
                       findings.budget.reason.empty() ? "anything" : format_bytes(findings.budget.bytes),
                       findings.budget.reason.empty() ? "the system does not say" : findings.budget.reason);
}

std::string machine_text(const PlanFindings& findings) {
    const MemoryFacts& facts = findings.machine;
    if (!findings.gpu.empty()) {
        return fmt::format("device:     {}; all sizes are of its memory\n", findings.gpu) + allowed_text(findings);
    }
    std::string text = fmt::format("machine:    {} of memory", format_bytes(facts.physical_bytes));
    if (facts.available_bytes) {
        text += fmt::format(", {} available", format_bytes(*facts.available_bytes));
    }
    for (const MemoryFacts::Group& group : facts.groups) {
        text += fmt::format("; control group {}: {}, {} in use", group.name, format_bytes(group.limit_bytes),
                            format_bytes(group.used_bytes));
    }
    if (facts.address_limit) {
        text += fmt::format("; ulimit -v {}", format_bytes(*facts.address_limit));
    }
    if (facts.data_limit) {
        text += fmt::format("; ulimit -d {}", format_bytes(*facts.data_limit));
    }
    return text + "\n" + allowed_text(findings);
}

std::string resident_text(const PlanFindings& findings, const PlanRow& row) {
    const ArenaParts& parts = row.plan.parts;
    const bool on_gpu = findings.device.kind == DeviceKind::cuda;
    constexpr std::string_view kOnHost = "in the machine's memory, not the GPU's";
    const std::string_view sums_note = findings.host_state == HostState::sums ? kOnHost : "";
    const std::string_view moments_note = findings.host_state != HostState::none ? kOnHost : "";
    return "always in memory\n" + bytes_line("weights", parts.weights) +
           bytes_line("copy in bf16", parts.copy, parts.copy == 0 ? "products read the weights themselves" : "") +
           bytes_line("sums of gradients", parts.sums, sums_note) + bytes_line("moments", parts.moments, moments_note) +
           (parts.waiting > 0 ? bytes_line("gradients that wait", parts.waiting, "to be added to the sums in one pass")
                              : "") +
           bytes_line("tables", parts.tables) +
           (parts.device > 0 ? bytes_line("the device's own", parts.device, "constants, workspace of its library")
                             : "") +
           (exchange_bytes(findings) > 0 ? bytes_line("exchange of sums", exchange_bytes(findings),
                                                      "8 bytes a parameter that each keeps, and messages")
                                         : "") +
           bytes_line("the process itself", row.peak_bytes - row.plan.arena_bytes - exchange_bytes(findings),
                      on_gpu ? "CUDA, the program's kernels, room to spare" : "program, data, stacks");
}

// Blocks that keep the same are told once.
std::string blocks_text(const ArenaParts& parts) {
    std::string text;
    for (size_t first = 0; first < parts.blocks.size();) {
        size_t next = first;
        while (next < parts.blocks.size() && parts.blocks[next] == parts.blocks[first]) {
            ++next;
        }
        text += fmt::format("{}{} x {}", text.empty() ? "" : " + ", next - first, format_bytes(parts.blocks[first]));
        first = next;
    }
    return text;
}

std::string transient_text(const Plan& plan) {
    const ArenaParts& parts = plan.parts;
    const int64_t kept = std::accumulate(parts.blocks.begin(), parts.blocks.end(), int64_t{0});
    return fmt::format("for one micro-batch ({} grain(s)), not all at the same time\n", plan.micro_batch_grains) +
           bytes_line("activations kept", kept, blocks_text(parts)) + bytes_line("tokens and stream", parts.batch) +
           bytes_line("loss", parts.loss, fmt::format("{} rows of logits at a time", plan.choices.loss_rows)) +
           bytes_line("workspace", parts.workspace, "the largest that one kernel takes") +
           bytes_line("largest at once", plan.arena_bytes - plan.resident_bytes);
}

std::string cost_text(const PlanFindings& findings, double hours) {
    return findings.price_per_hour ? fmt::format("{:>10.2f}", hours * *findings.price_per_hour) : "";
}

// Of plans that hardly differ in memory, one is told; the first, the last and the chosen one always are.
std::vector<size_t> told_of(const PlanFindings& findings) {
    constexpr double kWorthALine = 0.985;
    std::vector<size_t> told;
    for (size_t i = 0; i < findings.frontier.size(); ++i) {
        const auto bytes = static_cast<double>(findings.frontier[i].peak_bytes);
        const bool is_edge = i == 0 || i + 1 == findings.frontier.size() || findings.chosen == i;
        if (is_edge || bytes < kWorthALine * static_cast<double>(findings.frontier[told.back()].peak_bytes)) {
            told.push_back(i);
        }
    }
    return told;
}

std::string frontier_text(const PlanFindings& findings) {
    std::string text = "frontier: no plan is both smaller and faster than one of these\n";
    text += fmt::format("  {:>11}{:>12}{:>12}{:>10}{}   {}\n", "memory", "tokens/s", "updates/h", "hours",
                        findings.price_per_hour ? "      cost" : "", "plan");
    for (const size_t i : told_of(findings)) {
        const PlanRow& row = findings.frontier[i];
        const double hours = row.seconds * static_cast<double>(findings.steps) / 3600;
        const char* mark = findings.chosen == i ? "> " : "  ";
        text +=
            fmt::format("{}{:>11}{:>12.0f}{:>12.1f}{:>10.2f}{}   {}, {} grain(s)\n", mark, format_bytes(row.peak_bytes),
                        static_cast<double>(findings.window_tokens) / row.seconds, 3600 / row.seconds, hours,
                        cost_text(findings, hours), text_of(row.plan), row.plan.micro_batch_grains);
    }
    return text;
}

std::string chosen_text(const PlanFindings& findings) {
    if (!findings.chosen) {
        return cat("chosen:     none. ", findings.refusal, "\n");
    }
    const PlanRow& row = findings.frontier[*findings.chosen];
    const double hours = row.seconds * static_cast<double>(findings.steps) / 3600;
    const auto tokens = static_cast<double>(findings.window_tokens);
    std::string text = fmt::format(
        "chosen:     {}\npeak:       {} of {} process, never more\nwindow:     {} micro-batch(es) of {} grain(s), "
        "then "
        "one update\npredicted:  {:.0f} tokens/s, {:.1f} updates/h, {:.2f} hours for {} steps\n",
        text_of(row.plan), format_bytes(row.peak_bytes), findings.team ? "each" : "the",
        accumulation_steps(findings, row), row.plan.micro_batch_grains, tokens / row.seconds, 3600 / row.seconds, hours,
        findings.steps);
    if (findings.price_per_hour) {
        text += fmt::format("cost:       {:.2f} at {:g} an hour\n", hours * *findings.price_per_hour,
                            *findings.price_per_hour);
    }
    if (row.measured_seconds) {
        text += fmt::format("measured:   {:.0f} tokens/s\n", tokens / *row.measured_seconds);
    }
    return text;
}

// What comes on top for several workers, and whether they are worth it.
std::string team_text(const PlanFindings& findings) {
    const TeamPlan& team = *findings.team;
    const PlanRow& row = shown_row(findings);
    std::string text = fmt::format(
        "workers:    {}, {}; everything above is of one of them\n"
        "exchange:   once a window, each sends {} ({} all of them), and keeps {} of memory for it\n",
        team.request.workers,
        team.request.link
            ? fmt::format("each a machine like this one, with a link of {}", format_link_speed(*team.request.link))
            : fmt::format("processes of this machine with {} thread(s) each", team.share.threads),
        format_bytes(team.exchange.sent_bytes), format_bytes(team.exchange.all_sent_bytes),
        format_bytes(team.exchange.held_bytes));
    const double exchange = team.exchange_seconds;
    text += fmt::format(
        "window:     {:.3g} s for {:.0f} of {:.0f} grains and the update, {:.3g} s for the exchange ({:.0f}%)\n"
        "against 1:  {:.2f} times the tokens/s of one of them alone{}\n",
        row.seconds - exchange, findings.process_grains, findings.window_grains, exchange, 100 * exchange / row.seconds,
        team.alone_seconds / row.seconds,
        team.alone_seconds < row.seconds ? ", which is faster: take a larger window or fewer workers" : "");
    return text;
}

// The same window, cut in other ways. The result is the same in every row.
std::string cuts_text(const PlanFindings& findings) {
    const bool is_measured = std::any_of(findings.cuts.begin(), findings.cuts.end(),
                                         [](const PlanRow& row) { return row.measured_seconds.has_value(); });
    std::string text = "the same window and the same result, cut in other ways\n";
    text +=
        fmt::format("  {:>12}{:>14}{:>14}{:>13}{:>18}{:>20}{:>13}{}\n", "micro-batch", "accumulation", "activations",
                    "peak", "synchronisations", "if each one synced", "predicted", is_measured ? "     measured" : "");
    for (const PlanRow& row : findings.cuts) {
        const auto tokens = static_cast<double>(findings.window_tokens);
        const int64_t steps = accumulation_steps(findings, row);
        text += fmt::format("  {:>12}{:>14}{:>14}{:>13}{:>18}{:>20}{:>9.0f} t/s", row.plan.micro_batch_grains, steps,
                            format_bytes(row.plan.arena_bytes - row.plan.resident_bytes), format_bytes(row.peak_bytes),
                            1, steps, tokens / row.seconds);
        if (row.measured_seconds) {
            text += fmt::format("{:>9.0f} t/s", tokens / *row.measured_seconds);
        }
        text += row.peak_bytes > findings.budget.bytes ? "   does not fit\n" : "\n";
    }
    return text;
}

}  // namespace

std::string plan_text(const PlanFindings& findings) {
    const PlanRow& shown = shown_row(findings);
    return fmt::format("job:        {}\nwindow:     {}\n", findings.title, findings.window) +
           (findings.epoch.empty() ? "" : fmt::format("epoch:      {}\n", findings.epoch)) + machine_text(findings) +
           "\n" + resident_text(findings, shown) + transient_text(shown.plan) + "\n" + frontier_text(findings) + "\n" +
           chosen_text(findings) + (findings.team ? team_text(findings) : "") + "\n" + cuts_text(findings);
}

}  // namespace accrue
