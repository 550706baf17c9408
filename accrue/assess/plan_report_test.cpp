#include "accrue/assess/plan_report.h"

#include <fstream>
#include <limits>

#include "tests/sanitized.h"
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "accrue/assess/calibrate.h"
#include "accrue/base/bytes.h"
#include "accrue/train/team/state_sharing.h"

namespace accrue {
namespace {

using testing::HasSubstr;

MemoryBound plenty() {
    return {.bytes = int64_t{1} << 40, .reason = "plenty", .address_bytes = std::numeric_limits<int64_t>::max()};
}

// The default job with short samples in small grains: 4 grains of 128 tokens.
RunInputs small_inputs(const std::optional<ByteSize>& memory = {}) {
    Settings settings;
    settings.data.sequence_length = 64;
    settings.window.samples = 8;
    settings.window.grain_samples = 2;
    settings.compute.memory = memory;
    settings.compute.threads = 1;
    return open_inputs(settings);
}

class PlanReportTest : public ::testing::Test {
protected:
    // What other tests of this process held is no concern of the next.
    PlanReportTest() { std::ofstream("/proc/self/clear_refs") << 5; }
};

TEST_F(PlanReportTest, TheChosenPlanIsTheFastestThatFits) {
    if (kSanitized) {
        GTEST_SKIP() << "a sanitizer keeps freed memory";
    }
    const RunInputs inputs = small_inputs();
    const PlanFindings all = find_plans(inputs, plenty(), {.typical = true});
    ASSERT_EQ(all.chosen, 0U);
    const size_t middle = all.frontier.size() / 2;
    MemoryBound less = plenty();
    less.bytes = all.frontier[middle].peak_bytes + (int64_t{1} << 20);
    const PlanFindings some = find_plans(inputs, less, {.typical = true});
    ASSERT_TRUE(some.chosen);
    const size_t chosen = *some.chosen;
    EXPECT_LE(some.frontier[chosen].peak_bytes, less.bytes);
    EXPECT_GT(chosen, 0U);
    EXPECT_GT(some.frontier[chosen - 1].peak_bytes, less.bytes);
}

// There is room for a step of a shorter sample only.
TEST_F(PlanReportTest, OfALongSampleAPartIsMeasured) {
    RunInputs inputs = small_inputs();
    inputs.train = dataset_of_tokens(std::vector<int32_t>(40'000, 1), 32'768, "long");
    inputs.validation = nullptr;
    inputs.settings.window.grain_samples = 1;
    inputs.model = known_families().shaped("tiny", {.layers = 1, .positions = 32'768}, {});
    Pool pool(1);
    const int64_t whole = Planner(inputs.settings, inputs.model, inputs.longest_sample(), 1).unlimited().arena_bytes;
    const Rates rates = measure_rates(inputs, pool, whole / 2);
    EXPECT_NE(rates.flops, Rates::typical(inputs.settings, 1).flops);
}

TEST_F(PlanReportTest, TheJsonHasWhatProgramsAskFor) {
    const PlanFindings findings = find_plans(small_inputs(), plenty(), {.price_per_hour = 2.5, .typical = true});
    const nlohmann::json json = nlohmann::json::parse(plan_json(findings).dump());
    const nlohmann::json& chosen = json.at("chosen");
    EXPECT_EQ(json.at("planned_peak_bytes"), chosen.at("planned_peak_bytes"));
    int64_t resident = 0;
    for (const char* part : {"weights", "copy", "sums", "moments", "tables", "process"}) {
        resident += json.at("resident").at(part).get<int64_t>();
    }
    EXPECT_EQ(resident + json.at("transient").at("largest_at_once").get<int64_t>(), json.at("planned_peak_bytes"));
    EXPECT_EQ(json.at("transient").at("blocks").size(), 4U);
    EXPECT_GT(json.at("frontier").size(), 2U);
    EXPECT_EQ(json.at("frontier").at(0), chosen);
    EXPECT_GT(chosen.at("tokens_per_second").get<double>(), 0);
    EXPECT_NEAR(chosen.at("cost").get<double>(), chosen.at("hours").get<double>() * 2.5, 1e-9);
    EXPECT_NEAR(chosen.at("hours").get<double>(), 200 / chosen.at("updates_per_hour").get<double>(), 1e-9);
}

TEST_F(PlanReportTest, CuttingTheWindowTradesActivationsForSteps) {
    const PlanFindings findings = find_plans(small_inputs(), plenty(), {.measures = true});
    std::vector<int64_t> steps;
    for (const PlanRow& row : findings.cuts) {
        steps.push_back(accumulation_steps(findings, row));
        ASSERT_TRUE(row.measured_seconds);
        EXPECT_GT(*row.measured_seconds, 0);
    }
    EXPECT_THAT(steps, testing::ElementsAre(4, 2, 1));
    for (size_t i = 1; i < findings.cuts.size(); ++i) {
        EXPECT_GT(findings.cuts[i].plan.arena_bytes, findings.cuts[i - 1].plan.arena_bytes);
        EXPECT_EQ(findings.cuts[i].plan.resident_bytes, findings.cuts[0].plan.resident_bytes);
    }
    const std::string text = plan_text(findings);
    EXPECT_THAT(text, HasSubstr("measured"));
    EXPECT_THAT(text, HasSubstr("synchronisations"));
    EXPECT_THAT(text, HasSubstr("activations kept"));
}

// What is said of workers follows from the plan of one of them and from the exchange's own figures.
TEST_F(PlanReportTest, WorkersOfANetworkHaveTheirExchangeOnTop) {
    const RunInputs inputs = small_inputs();
    const PlanFindings alone = find_plans(inputs, plenty(), {.typical = true});
    const PlanFindings findings =
        find_plans(inputs, plenty(), {.typical = true, .team = TeamRequest{.workers = 3, .link = 1e9}});
    ASSERT_TRUE(findings.team);
    const ExchangeCost cost = exchange_of(inputs.settings, *inputs.model, 3);
    EXPECT_EQ(findings.process_grains, 2) << "of four grains, one worker has two";
    EXPECT_EQ(findings.team->exchange_seconds, seconds_over_link(cost, 1e9));
    EXPECT_EQ(findings.team->alone_seconds, alone.frontier.front().seconds);
    if (!kSanitized) {  // what this process holds grows with each look
        const int64_t less = shown_row(alone).plan.arena_bytes - shown_row(findings).plan.arena_bytes;
        EXPECT_NEAR(shown_row(findings).peak_bytes + less - shown_row(alone).peak_bytes, cost.held_bytes, 16 << 20);
    }
    const ArenaParts& of_one = shown_row(alone).plan.parts;
    const ArenaParts& of_three = shown_row(findings).plan.parts;
    EXPECT_LT(of_three.moments, of_one.moments * 3 / 4) << "two of three parts";
    EXPECT_LT(of_three.weights, of_one.weights);
    EXPECT_EQ(findings.budget.bytes, plenty().bytes) << "a machine of its own";
    const nlohmann::json json = nlohmann::json::parse(plan_json(findings).dump());
    EXPECT_EQ(json.at("workers").at("exchange_sent_bytes"), cost.sent_bytes);
    EXPECT_EQ(json.at("workers").at("exchange_sent_bytes_of_all"), cost.all_sent_bytes);
    EXPECT_EQ(json.at("workers").at("worker_peak_bytes"), json.at("planned_peak_bytes"));
    EXPECT_EQ(json.at("resident").at("exchange"), cost.held_bytes);
    EXPECT_GT(json.at("chosen").at("window_seconds"), json.at("workers").at("exchange_seconds"));
    const std::string text = plan_text(findings);
    EXPECT_THAT(text, HasSubstr("workers:    3, each a machine like this one, with a link of 1 Gbit/s"));
    EXPECT_THAT(text, HasSubstr("each sends " + format_bytes(cost.sent_bytes)));
    EXPECT_THAT(text, HasSubstr("exchange of sums"));

    // A link that is slower than any processor.
    const PlanFindings slow =
        find_plans(inputs, plenty(), {.typical = true, .team = TeamRequest{.workers = 3, .link = 1e5}});
    EXPECT_THAT(plan_text(slow), HasSubstr("which is faster: take a larger window or fewer workers"));
}

TEST_F(PlanReportTest, WorkersOfAMachineShareItsMemory) {
    const RunInputs inputs = small_inputs();
    const PlanFindings findings = find_plans(inputs, plenty(), {.typical = true, .team = TeamRequest{.workers = 4}});
    EXPECT_EQ(findings.budget.bytes, plenty().bytes / 4);
    EXPECT_THAT(plan_text(findings), HasSubstr("plenty, of which each of 4 workers has"));
    EXPECT_THAT(plan_text(findings), HasSubstr("4, processes of this machine with 1 thread(s) each"));
    EXPECT_EQ(findings.team->exchange_seconds, seconds_over_loopback(findings.team->exchange, 1));
    EXPECT_TRUE(plan_json(findings).at("workers").at("link_bits_per_second").is_null());
    EXPECT_GT(shown_row(findings).seconds, findings.team->alone_seconds) << "four processes share one thread";
}

// Planned from what a GPU would take, whichever machine this is.
TEST_F(PlanReportTest, APlanForAGpuIsOfItsMemory) {
    RunInputs inputs = small_inputs();
    inputs.settings.compute.device = DeviceName(DeviceKind::cuda, 99);
    const PlanFindings findings = find_plans(inputs, plenty(), {.typical = true});
    const std::string text = plan_text(findings);
    EXPECT_THAT(text,
                HasSubstr("device:     cuda:99, a GPU that is not in this machine; all sizes are of its memory\n"));
    EXPECT_THAT(text, HasSubstr("gradients that wait"));
    EXPECT_THAT(text, HasSubstr("the device's own"));
    const nlohmann::json json = nlohmann::json::parse(plan_json(findings).dump());
    EXPECT_GT(json.at("resident").at("waiting"), 0);
    EXPECT_GT(json.at("resident").at("device"), 0);
    EXPECT_EQ(json.at("memory").at("device"), "cuda:99");
}

TEST_F(PlanReportTest, WhatDoesNotFitIsShownAndSaid) {
    const PlanFindings findings = find_plans(small_inputs(parse_byte_size("9MiB")), plenty(), {.typical = true});
    EXPECT_FALSE(findings.chosen);
    EXPECT_THAT(findings.refusal, HasSubstr("compute.memory is 9.00 MiB, but the smallest plan needs " +
                                            format_bytes(findings.frontier.back().peak_bytes)));
    EXPECT_THAT(plan_text(findings), HasSubstr("chosen:     none. compute.memory is 9.00 MiB"));
    EXPECT_TRUE(plan_json(findings).at("chosen").is_null());
}

// For a GPU, which need not be there.
TEST_F(PlanReportTest, StateOnTheHostIsShownAndTheMachineMustHoldIt) {
    Settings settings;
    settings.window.samples = 8;
    settings.compute.device = DeviceKind::cuda;
    settings.compute.host_state = HostState::moments;
    const RunInputs inputs = open_inputs(settings, nullptr, known_families(), DeviceUse::plan);
    const PlanFindings findings = find_plans(inputs, plenty(), {.typical = true, .host = plenty()});
    ASSERT_TRUE(findings.chosen);
    const std::string text = plan_text(findings);
    const size_t sums = text.find("  sums of gradients");
    const size_t moments = text.find("  moments");
    const size_t note = text.find("in the machine's memory, not the GPU's");
    ASSERT_NE(note, std::string::npos) << text;
    EXPECT_LT(sums, moments);
    EXPECT_LT(moments, note) << "the note is the moments'";
    EXPECT_EQ(plan_json(findings).at("resident").at("on_host"), shown_row(findings).plan.parts.moments);

    MemoryBound little = plenty();
    little.bytes = 1000;
    little.reason = "the test says so";
    const PlanFindings refused = find_plans(inputs, plenty(), {.typical = true, .host = little});
    EXPECT_FALSE(refused.chosen);
    EXPECT_THAT(plan_text(refused), HasSubstr("chosen:     none. compute.host_state is \"moments\", so "));
    EXPECT_TRUE(find_plans(inputs, plenty(), {.typical = true}).chosen) << "another machine's is not known";
}

}  // namespace
}  // namespace accrue
