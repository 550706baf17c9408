#include "accrue/cli/bench_command.h"

#include <csignal>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/prctl.h>

#include "accrue/assess/bench_report.h"
#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/output_path.h"
#include "accrue/cli/child_process.h"
#include "accrue/cli/commit.h"
#include "accrue/cli/device_option.h"
#include "accrue/cli/standard_output.h"
#include "accrue/train/device_choice.h"
#include "accrue/train/memory_budget.h"
#include "accrue/train/settings_words.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

// As a run settles compute.device: the first GPU with room, else the processor.
DeviceName settled_device(const BenchCommand& command) {
    BenchRequest request = command.request;
    request.device = asked_device(command.device);
    Settings settings = bench_settings(request);
    settings.compute.device = request.device;
    if (const std::string note = settle_device(settings, bench_model(request), request.sequence, DeviceUse::compute);
        !note.empty() && command.child.empty()) {
        fmt::print("{}\n", note);
    }
    return *settings.compute.device;
}

// One measurement in a process of its own: its peak of memory is then nobody else's.
Json measured_by_child(const std::string& what, const BenchRequest& request) {
    std::vector<std::string> arguments = {"bench",
                                          "--child",
                                          what,
                                          "--model",
                                          request.model,
                                          "--dtype",
                                          std::string(word_of(request.dtype)),
                                          "--sums",
                                          std::string(word_of(request.sums)),
                                          "--sequence",
                                          std::to_string(request.sequence),
                                          "--samples",
                                          std::to_string(request.samples),
                                          "--threads",
                                          std::to_string(request.threads),
                                          "--micro-batch",
                                          std::to_string(request.micro_batch),
                                          "--steps",
                                          std::to_string(request.steps),
                                          "--recompute",
                                          std::string(word_of(request.recompute)),
                                          "--loss-rows",
                                          std::to_string(request.loss_rows),
                                          "--weight-copy",
                                          std::string(word_of(request.weight_copy)),
                                          "--device",
                                          text_of(*request.device)};
    for (const std::string& override : request.overrides) {
        arguments.insert(arguments.end(), {"--set", override});
    }
    const std::string output = output_of_this_program(arguments);
    Json json = Json::parse(output, nullptr, false);
    if (json.is_discarded()) {
        throw Error(cat("a process of the measurement said what is no JSON: ", output));
    }
    return json;
}

ExitCode run_child(const BenchCommand& command) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // nobody would read the answer
    Json json;
    if (command.child == "check") {
        json = to_json(check_gradient(command.request));
    } else if (command.child == "bandwidth") {
        json = measure_bandwidth(command.request);
    } else {
        json = to_json(measure_steps(command.request));
    }
    fmt::print("{}\n", json.dump());
    return ExitCode::done;
}

void note(const std::string& text) {
    fmt::print("{}\n", text);
    flush_output();
}

// What would only show after minutes is said at once. Where to write the result; empty = nowhere.
std::filesystem::path check_before(const BenchCommand& command) {
    const BenchRequest& request = command.request;
    const auto model = bench_model(request);
    if (request.device->kind != DeviceKind::cuda) {  // which is asked when the plan is made
        const ArenaPlan plan =
            plan_arena(bench_settings(request), model, request.sequence,
                       Pool(static_cast<int>(request.threads)).threads(), bench_choices(request, model->blocks()));
        if (const auto available = available_memory()) {
            check_memory(plan, *available);
        }
    }
    if (command.json.empty()) {
        return {};
    }
    return check_output_file(
        {.option = "--json", .path = command.json, .overwrite = command.overwrite ? Overwrite::yes : Overwrite::no});
}

// Both kinds of sums, in turns, so that a machine that changes its speed treats them alike.
void measure_in_turns(const BenchCommand& command, BenchFindings& findings) {
    BenchRequest beside = command.request;
    beside.sums = sums_beside_fp32(command.request);
    BenchRequest fp32 = command.request;
    fp32.sums = SumKind::fp32;
    for (int64_t round = 0; round < command.rounds; ++round) {
        note(fmt::format("round {} of {}: {} step(s) with {} sums, then with fp32 sums", round + 1, command.rounds,
                         command.request.steps, word_of(beside.sums)));
        findings.beside_fp32.push_back(steps_from_json(measured_by_child("steps", beside)));
        findings.fp32.push_back(steps_from_json(measured_by_child("steps", fp32)));
    }
}

template <class Value>
std::vector<std::string> words_and_auto() {
    std::vector<std::string> words = words_of<Value>();
    words.emplace_back(kAuto);
    return words;
}

// An option that takes one of an enum's words.
template <class Value>
void add_word_option(CLI::App& app, const std::string& name, Value& value, const std::string& meaning) {
    app.add_option_function<std::string>(
           name, [&value](const std::string& word) { value = value_of_word<Value>(word).value(); }, meaning)
        ->default_str(std::string(word_of(value)))
        ->check(CLI::IsMember(words_of<Value>()));
}

}  // namespace

ExitCode run_bench(const BenchCommand& asked) {
    BenchCommand command = asked;
    command.request.device = settled_device(asked);
    if (!command.child.empty()) {
        return run_child(command);
    }
    const std::filesystem::path output = check_before(command);
    BenchFindings findings;
    findings.request = command.request;
    note("checking the gradient against the fp32 reference");
    findings.check = check_from_json(measured_by_child("check", command.request));
    require_right(findings.check, command.request);
    findings.bandwidth = measured_by_child("bandwidth", command.request).get<double>();
    measure_in_turns(command, findings);
    const Json result = bench_json(findings, {.commit = kCommit, .command = command_line()});
    fmt::print("\n{}", bench_text(result));
    if (!output.empty()) {
        write_text(output, result.dump(2) + "\n");
        fmt::print("result file:        {}\n", command.json);
    }
    return ExitCode::done;
}

void add_bench_command(CLI::App& app, BenchCommand& command, ExitCode& code) {
    BenchRequest& request = command.request;
    auto* bench = app.add_subcommand("bench", "Measure the speed of training against what this machine could do");
    const auto count = [&](const char* name, int64_t& value, const char* meaning) {
        bench->add_option(name, value, meaning)->capture_default_str()->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
    };
    bench->add_option("--model", request.model, "A preset: tiny, gpt2-124m, llama-350m, llama-1.5b")
        ->capture_default_str();
    add_word_option(*bench, "--dtype", request.dtype, "Number format of products");
    count("--sequence", request.sequence, "Tokens of a sample");
    count("--samples", request.samples, "Samples of the window");
    bench->add_option("--threads", request.threads, "0 = all")->capture_default_str()->check(CLI::Range(0, 4096));
    bench
        ->add_option("--micro-batch", request.micro_batch, "Grains that pass through the layers together; 0 = as a run")
        ->capture_default_str()
        ->check(CLI::Range(0, 1 << 20));
    add_word_option(*bench, "--sums", request.sums,
                    "How gradients are added; fp32 (for fp32: exact) is measured for comparison");
    bench
        ->add_option_function<std::string>(
            "--recompute", [&request](const std::string& word) { request.recompute = value_of_word<Recompute>(word); },
            "What each block computes again instead of keeping it; auto = as a run's plan, within compute.memory")
        ->default_str(std::string(word_of(request.recompute)))
        ->check(CLI::IsMember(words_and_auto<Recompute>()));
    bench->add_option("--device", command.device, "auto, cpu, cuda (the first GPU), cuda:1")
        ->capture_default_str()
        ->check(device_or_auto());
    bench
        ->add_option("--set", request.overrides,
                     "Another setting of the run: --set optimizer.moments=8bit (repeatable)")
        ->type_name("SECTION.KEY=VALUE")
        ->allow_extra_args(false);
    count("--loss-rows", request.loss_rows, "Rows of logits that exist at a time");
    add_word_option(*bench, "--weight-copy", request.weight_copy,
                    "bf16: products read a copy of the weights, or convert them tile by tile");
    count("--steps", request.steps, "Measured optimizer steps of a process, after one that is not");
    count("--rounds", command.rounds, "Processes for each kind of sums, in turns");
    bench->add_option("--json", command.json, "Write the result there too")->type_name("FILE");
    bench->add_flag("--overwrite", command.overwrite, "Replace that file if it exists");
    bench->add_option("--child", command.child)->group("")->check(CLI::IsMember({"check", "bandwidth", "steps"}));
    bench->callback([&] { code = run_bench(command); });
}

}  // namespace accrue
