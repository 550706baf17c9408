#include "accrue/assess/bench_report.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "accrue/base/bytes.h"
#include "accrue/base/machine.h"
#include "accrue/kernels/gpus.h"
#include "accrue/train/settings_words.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

// The middle value; of an even number, the larger of the middle two.
template <class T, class Key>
const T& median_of(std::vector<T>& values, Key key) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end(), [&](const T& a, const T& b) { return key(a) < key(b); });
    return *middle;
}

std::vector<StepTimes> steps_of(const std::vector<StepsMeasurement>& measurements) {
    std::vector<StepTimes> steps;
    for (const StepsMeasurement& measurement : measurements) {
        steps.insert(steps.end(), measurement.steps.begin(), measurement.steps.end());
    }
    return steps;
}

StepTimes median_step(const std::vector<StepsMeasurement>& measurements) {
    std::vector<StepTimes> steps = steps_of(measurements);
    return median_of(steps, [](const StepTimes& step) { return step.seconds; });
}

Json parts_json(const StepTimes& step) {
    Json parts;
    for (int64_t part = 0; part < kParts; ++part) {
        parts[std::string(name_of(static_cast<Part>(part)))] = 1e3 * step.parts[static_cast<size_t>(part)];
    }
    parts["waiting"] = 1e3 * step.waiting;
    return parts;
}

bool is_gpu(const BenchRequest& request) {
    return request.device && request.device->kind == DeviceKind::cuda;
}

// The GPU that it was measured on and what stands between it and the program.
Json gpu_json(int number) {
    const GpuSoftware software = gpu_software();
    Json json = {{"driver", software.driver}, {"cuda", software.cuda}, {"library", software.library}};
    for (const Gpu& gpu : gpus_of_machine().found) {
        if (gpu.number == number) {
            json["name"] = gpu.name;
            json["architecture"] = cat("sm_", gpu.architecture);
            json["memory_bytes"] = gpu.memory_bytes;
        }
    }
    return json;
}

Json machine_json(const BenchRequest& request) {
    const Machine machine = this_machine();
    Json json = {{"processor", machine.processor},
                 {"processors", machine.processors},
                 {"memory_bytes", machine.memory_bytes},
                 {"system", machine.system}};
    if (is_gpu(request)) {
        json["gpu"] = gpu_json(request.device->gpu);
    }
    return json;
}

Json work_json(const BenchRequest& request, const StepsMeasurement& facts) {
    return {{"model", name_of(bench_settings(request).model)},
            {"parameters", facts.parameters},
            {"dtype", word_of(request.dtype)},
            {"sums", word_of(request.sums)},
            {"recompute", word_of(request.recompute)},
            {"plan", facts.plan},
            {"settings", request.overrides},
            {"loss_rows", request.loss_rows},
            {"weight_copy", word_of(request.weight_copy)},
            {"sequence", request.sequence},
            {"samples", request.samples},
            {"grain_samples", facts.grain_samples},
            {"grains", facts.grains},
            {"micro_batches", facts.micro_batches},
            {"threads", facts.threads},
            {"device", facts.device}};
}

std::string gpu_text(const Json& gpu) {
    const auto text = [&](const char* key) { return gpu.value(key, std::string("?")); };
    return fmt::format("{} ({}), driver {}, CUDA {}, {}", text("name"), text("architecture"), text("driver"),
                       text("cuda"), text("library"));
}

// What each part would take at least: its products at their rate or its bytes at the bandwidth, whichever is slower.
Json floor_parts_json(const WorkByPart& work, double flops_rate, double bytes_rate) {
    Json parts;
    for (int64_t part = 0; part < kParts; ++part) {
        const Work& of_part = work[static_cast<size_t>(part)];
        parts[std::string(name_of(static_cast<Part>(part)))] =
            1e3 * std::max(of_part.flops / flops_rate, of_part.bytes / bytes_rate);
    }
    return parts;
}

std::vector<double> step_seconds(const std::vector<StepsMeasurement>& measurements) {
    std::vector<double> seconds;
    for (const StepTimes& step : steps_of(measurements)) {
        seconds.push_back(step.seconds);
    }
    return seconds;
}

// "bf16-kahan" in the name of a field: "bf16_kahan".
std::string as_field(std::string sums) {
    std::replace(sums.begin(), sums.end(), '-', '_');
    return sums;
}

std::string seconds_key(const std::string& sums) {
    return "step_seconds_" + as_field(sums);
}

std::string over_fp32_key(const std::string& sums) {
    return as_field(sums) + "_over_fp32";
}

}  // namespace

namespace {

Json json_of(const StepTimes& step) {
    return {{"seconds", step.seconds}, {"parts", step.parts}, {"waiting", step.waiting},
            {"calls", step.calls},     {"loss", step.loss},   {"replays", step.replays}};
}

StepTimes step_from(const Json& json) {
    return {.seconds = json.at("seconds"),
            .parts = json.at("parts"),
            .waiting = json.at("waiting"),
            .calls = json.at("calls"),
            .loss = json.at("loss"),
            .replays = json.at("replays")};
}

// FLOP and bytes of each part.
Json json_of(const WorkByPart& work) {
    Json json = Json::array();
    for (const Work& part : work) {
        json.push_back({part.flops, part.bytes});
    }
    return json;
}

WorkByPart work_from(const Json& json) {
    WorkByPart work;
    for (size_t part = 0; part < work.size(); ++part) {
        work[part] = {.flops = json.at(part).at(0), .bytes = json.at(part).at(1)};
    }
    return work;
}

}  // namespace

Json to_json(const StepsMeasurement& measurement) {
    Json json = {{"rates", measurement.rates},
                 {"lasting_rates", measurement.lasting_rates},
                 {"undisturbed_seconds", measurement.undisturbed_seconds},
                 {"window_tokens", measurement.window_tokens},
                 {"parameters", measurement.parameters},
                 {"grain_samples", measurement.grain_samples},
                 {"grains", measurement.grains},
                 {"micro_batches", measurement.micro_batches},
                 {"planned_peak_bytes", measurement.planned_peak_bytes},
                 {"resident_peak_bytes", measurement.resident_peak_bytes},
                 {"arena_bytes", measurement.arena_bytes},
                 {"work", json_of(measurement.work)},
                 {"plan", measurement.plan},
                 {"device", measurement.device},
                 {"threads", measurement.threads},
                 {"steps", Json::array()}};
    for (const StepTimes& step : measurement.steps) {
        json["steps"].push_back(json_of(step));
    }
    if (measurement.step_by_parts) {
        json["step_by_parts"] = json_of(*measurement.step_by_parts);
    }
    return json;
}

StepsMeasurement steps_from_json(const Json& json) {
    StepsMeasurement measurement{.steps = {},
                                 .work = work_from(json.at("work")),
                                 .rates = json.at("rates"),
                                 .lasting_rates = json.at("lasting_rates"),
                                 .undisturbed_seconds = json.at("undisturbed_seconds"),
                                 .window_tokens = json.at("window_tokens"),
                                 .parameters = json.at("parameters"),
                                 .grain_samples = json.at("grain_samples"),
                                 .grains = json.at("grains"),
                                 .micro_batches = json.at("micro_batches"),
                                 .planned_peak_bytes = json.at("planned_peak_bytes"),
                                 .resident_peak_bytes = json.at("resident_peak_bytes"),
                                 .arena_bytes = json.at("arena_bytes"),
                                 .plan = json.at("plan"),
                                 .device = json.at("device"),
                                 .threads = json.at("threads")};
    for (const Json& step : json.at("steps")) {
        measurement.steps.push_back(step_from(step));
    }
    if (json.contains("step_by_parts")) {
        measurement.step_by_parts = step_from(json.at("step_by_parts"));
    }
    return measurement;
}

Json to_json(const GradientCheck& check) {
    return {{"tensors", check.tensors},
            {"tokens", check.tokens},
            {"largest_relative_error", check.largest_error},
            {"worst_tensor", check.worst_tensor},
            {"allowed", check.allowed}};
}

GradientCheck check_from_json(const Json& json) {
    return {.tensors = json.at("tensors"),
            .tokens = json.at("tokens"),
            .largest_error = json.at("largest_relative_error"),
            .worst_tensor = json.at("worst_tensor"),
            .allowed = json.at("allowed")};
}

Json bench_json(const BenchFindings& findings, const BenchOrigin& origin) {
    const BenchRequest& request = findings.request;
    const auto& asked = request.sums == SumKind::fp32 ? findings.fp32 : findings.beside_fp32;
    const std::string beside(word_of(sums_beside_fp32(request)));
    const StepsMeasurement& facts = asked.front();
    const StepTimes step = median_step(asked);
    std::vector<double> rates;
    std::vector<double> lasting;
    double undisturbed = std::numeric_limits<double>::infinity();
    int64_t resident = 0;
    for (const StepsMeasurement& measurement : asked) {
        undisturbed = std::min(undisturbed, measurement.undisturbed_seconds);
        rates.insert(rates.end(), measurement.rates.begin(), measurement.rates.end());
        lasting.insert(lasting.end(), measurement.lasting_rates.begin(), measurement.lasting_rates.end());
        resident = std::max(resident, measurement.resident_peak_bytes);
    }
    const double best_rate = *std::max_element(rates.begin(), rates.end());
    const std::vector<double> seconds = step_seconds(asked);
    const double rate = median_of(rates, [](double value) { return value; });
    const double lasting_rate =
        std::accumulate(lasting.begin(), lasting.end(), 0.0) / static_cast<double>(lasting.size());
    const double flops = bench_model(request)->gradient_flops(request.sequence) * static_cast<double>(request.samples);
    const auto tokens = static_cast<double>(facts.window_tokens);

    Json json = {
        {"tokens_per_second", tokens / step.seconds},
        {"floor_tokens_per_second", tokens * rate / flops},
        {"fraction_of_floor", flops / rate / step.seconds},
        {"fraction_of_best_floor", flops / best_rate / step.seconds},
        {"fastest_step_fraction", flops / best_rate / *std::min_element(seconds.begin(), seconds.end())},
        {"fraction_of_lasting_floor", flops / lasting_rate / step.seconds},
        {over_fp32_key(beside), median_step(findings.fp32).seconds / median_step(findings.beside_fp32).seconds},
        {"planned_peak_bytes", facts.planned_peak_bytes},
        {"resident_peak_bytes", resident},
        {"arena_bytes", facts.arena_bytes},
        {"step_ms", 1e3 * step.seconds},
        {"flops_per_step", flops},
        {"multiply_add_flops", rate},
        {"multiply_add_flops_best", best_rate},
        {"multiply_add_flops_lasting", lasting_rate},
        {"memory_bandwidth_bytes_per_second", findings.bandwidth},
        {seconds_key(beside), step_seconds(findings.beside_fp32)},
        {seconds_key("fp32"), step_seconds(findings.fp32)},
        {"loss", step.loss},
        {"replays", step.replays},
        {"check", to_json(findings.check)},
        {"work", work_json(request, facts)},
        {"machine", machine_json(request)},
        {"commit", origin.commit},
        {"command", origin.command}};
    const StepTimes by_parts = facts.step_by_parts ? *facts.step_by_parts : step;
    json["parts_ms"] = parts_json(by_parts);
    json["kernel_calls_per_step"] = by_parts.calls;
    if (facts.step_by_parts) {
        json["step_by_parts_ms"] = 1e3 * by_parts.seconds;
        json["floor_parts_ms"] = floor_parts_json(facts.work, rate, findings.bandwidth);
        double floor_ms = 0;
        for (const auto& [name, milliseconds] : json.at("floor_parts_ms").items()) {
            floor_ms += milliseconds.get<double>();
        }
        json["floor_by_parts_tokens_per_second"] = 1e3 * tokens / floor_ms;
        json["fraction_of_floor_by_parts"] = floor_ms / (1e3 * step.seconds);
    } else {
        json["undisturbed_step_ms"] = 1e3 * undisturbed;
        json["undisturbed_fraction"] = flops / best_rate / undisturbed;
    }
    return json;
}

std::string bench_text(const Json& result) {
    const Json& work = result.at("work");
    const Json& check = result.at("check");
    const auto number = [](const Json& value) { return value.get<double>(); };
    const auto text_of = [](const Json& value) { return value.get<std::string>(); };
    const bool on_gpu = result.contains("step_by_parts_ms");
    const std::string sums = text_of(work.at("sums"));
    const std::string beside(word_of(sums_beside_fp32({.sums = value_of_word<SumKind>(sums).value()})));
    const auto steps = result.at(seconds_key(sums)).get<std::vector<double>>();
    const auto [fastest, slowest] = std::minmax_element(steps.begin(), steps.end());
    std::string text = fmt::format(
        "machine:            {}; {}; {}\n"
        "work:               {} ({} parameters), {}, {} sums, recomputing {}, weight copy {}\n"
        "window:             {} sample(s) of {} tokens = {} grain(s) of {} sample(s), in {} micro-batch(es)\n"
        "answer:             right: {} gradients within {:.2g} of the fp32 reference ({} allowed; worst {})\n"
        "ceilings:           {:.1f} GFLOP/s of {} (best {:.1f}, lasting {:.1f}), {:.1f} GB/s of memory\n",
        on_gpu ? gpu_text(result.at("machine").at("gpu")) : text_of(result.at("machine").at("processor")),
        text_of(work.at("device")), text_of(result.at("machine").at("system")), text_of(work.at("model")),
        work.at("parameters").get<int64_t>(), text_of(work.at("dtype")), sums, text_of(work.at("recompute")),
        text_of(work.at("weight_copy")), work.at("samples").get<int64_t>(), work.at("sequence").get<int64_t>(),
        work.at("grains").get<int64_t>(), work.at("grain_samples").get<int64_t>(),
        work.at("micro_batches").get<int64_t>(), check.at("tensors").get<int64_t>(),
        number(check.at("largest_relative_error")), number(check.at("allowed")), text_of(check.at("worst_tensor")),
        1e-9 * number(result.at("multiply_add_flops")), on_gpu ? "large products" : "multiply-adds",
        1e-9 * number(result.at("multiply_add_flops_best")), 1e-9 * number(result.at("multiply_add_flops_lasting")),
        1e-9 * number(result.at("memory_bandwidth_bytes_per_second")));
    text += fmt::format(
        "speed:              {:.1f} tokens/s, {:.1f} ms a step (median of {}: {:.1f} to {:.1f})\n"
        "floor:              {:.1f} tokens/s ({:.1f} GFLOP a step at that rate)\n"
        "fraction of floor:  {:.3f} ({:.3f} of the best rate's, {:.3f} of the lasting rate's; {:.3f} in the fastest "
        "step{})\n"
        "{}"
        "{:<19} {:.3f} of the speed\n"
        "memory:             planned {}, {} {}\n"
        "{}",
        number(result.at("tokens_per_second")), number(result.at("step_ms")), steps.size(), 1e3 * *fastest,
        1e3 * *slowest, number(result.at("floor_tokens_per_second")), 1e-9 * number(result.at("flops_per_step")),
        number(result.at("fraction_of_floor")), number(result.at("fraction_of_best_floor")),
        number(result.at("fraction_of_lasting_floor")), number(result.at("fastest_step_fraction")),
        on_gpu ? "" : fmt::format(", {:.3f} undisturbed", number(result.at("undisturbed_fraction"))),
        on_gpu ? fmt::format("floor by parts:     {:.1f} tokens/s, of which {:.3f} is reached (each part's products at "
                             "the rate or its bytes at the bandwidth)\n",
                             number(result.at("floor_by_parts_tokens_per_second")),
                             number(result.at("fraction_of_floor_by_parts")))
               : "",
        beside + " / fp32 sums:", number(result.at(over_fp32_key(beside))),
        format_bytes(result.at("planned_peak_bytes")), on_gpu ? "held of the GPU's" : "resident",
        format_bytes(result.at("resident_peak_bytes")),
        on_gpu
            ? fmt::format("parts of a step in which each operation was waited for ({:.1f} ms), and their floors, ms:\n",
                          number(result.at("step_by_parts_ms")))
            : "parts of a step, ms:\n");
    const double all = number(result.at(on_gpu ? "step_by_parts_ms" : "step_ms"));
    for (const auto& [name, milliseconds] : result.at("parts_ms").items()) {
        std::string title = name;
        std::replace(title.begin(), title.end(), '_', ' ');
        text +=
            fmt::format("  {:<18}{:>10.1f}  {:>5.1f}%", title, number(milliseconds), 100 * number(milliseconds) / all);
        const bool has_floor = on_gpu && result.at("floor_parts_ms").contains(name);
        text += has_floor ? fmt::format("{:>10.1f}\n", number(result.at("floor_parts_ms").at(name))) : "\n";
    }
    return text;
}

}  // namespace accrue
