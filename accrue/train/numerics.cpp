#include "accrue/train/numerics.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/hash.h"
#include "accrue/base/random.h"
#include "accrue/data/samples/dataset.h"
#include "accrue/kernels/cpu/instruction_set.h"
#include "accrue/kernels/numerics.h"
#include "accrue/train/engine.h"
#include "accrue/train/initial_weights.h"
#include "accrue/train/planner.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/step.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

// Enough for every tile shape and for two samples of a grain; little beside what a run takes.
constexpr int64_t kProbeBlocks = 2;
constexpr int64_t kProbeVocabulary = 512;
constexpr int64_t kProbeTokens = 32;
constexpr int64_t kProbeSamples = 2;
constexpr uint64_t kProbeSeed = 0x70726f6265;

// Sets above AVX-512 differ only in their products of bf16 numbers (tests/expected_bits.txt).
std::string set_of_bits(const Settings::Compute& compute) {
    using enum cpu::InstructionSet;
    if (device_of(compute).name.kind != DeviceKind::cpu) {
        return "";
    }
    const cpu::InstructionSet set = cpu::instruction_set_named(compute.instruction_set);
    return std::string(cpu::name_of(compute.dtype == DType::fp32 ? std::min(set, avx512) : set));
}

// How far apart the model's fresh weights are.
float widest_deviation(const ParameterList& parameters) {
    float widest = 0;
    for (const Parameter& parameter : parameters.parameters) {
        widest = std::max(widest, parameter.initial_deviation);
    }
    return widest;
}

Settings probe_settings(Settings settings, int64_t tokens) {
    settings.data.sequence_length = tokens;
    settings.window = {.samples = kProbeSamples, .tokens = 0, .grain_samples = kProbeSamples, .micro_batch_grains = 1};
    settings.compute.recompute.reset();
    settings.compute.loss_scale = Settings::Compute().loss_scale;  // where a run begins is no matter of bits
    settings.compute.host_state = HostState::none;
    settings.run.seed = static_cast<int64_t>(kProbeSeed);
    return settings;
}

// Not too small, so that no gradient vanishes; a value's place alone decides it.
void fill_probe_weights(const Engine& engine, float range, Pool& pool) {
    const int64_t elements = engine.model->parameters().flat_elements;
    const PutWeights put = engine.put_weights();
    pool.run((elements + kPutElements - 1) / kPutElements, [&](int64_t block, int) {
        std::array<float, kPutElements> values;
        const int64_t first = block * kPutElements;
        const auto some = std::span(values).first(static_cast<size_t>(std::min(kPutElements, elements - first)));
        for (size_t i = 0; i < some.size(); ++i) {
            some[i] = (uniform(mix(kProbeSeed, static_cast<uint64_t>(first) + i)) - 0.5F) * 4 * range;
        }
        put(first, some);
    });
}

// What a device says of itself, and the fingerprint.
struct Probed {
    std::string device;
    std::string fingerprint;
};

Probed probed(const Settings& run, const ModelSpec& run_model, int64_t longest_sample, Pool& pool) {
    const int64_t length = std::min(longest_sample, kProbeTokens);
    const Settings settings = probe_settings(run, length);
    const auto model = run_model.at_most({.blocks = kProbeBlocks, .vocabulary = kProbeVocabulary, .positions = length});
    const DeviceChoice device = device_of(settings.compute);
    Arena arena(make_backing(device, plan_arena(settings, model, length, pool.threads()).peak_bytes));
    const auto kernels = make_kernels(device, pool, arena);
    Engine engine(settings, model, length, *kernels);
    fill_probe_weights(engine, widest_deviation(model->parameters()), pool);
    engine.refresh_copy();

    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < kProbeSamples * length + 1; ++i) {
        tokens.push_back(static_cast<int32_t>(mix(kProbeSeed, 1, static_cast<uint64_t>(i)) %
                                              static_cast<uint64_t>(model->vocabulary())));
    }
    const auto data = dataset_of_tokens(tokens, length, "probe");
    const Loader loader(*data, {SampleOrder::Kind::sequential, 0, data->size()});
    const StopFlag never{false};
    const Window window{.samples = data->size(), .grain_samples = kProbeSamples, .ends_epoch = true};
    (void)run_step(engine, loader, window, never);
    std::string of_device = kernels->numerics();
    return {.device = std::move(of_device), .fingerprint = hash_of(engine.sum.source())};
}

Json json_of(const Numerics& numerics) {
    return {{"device", numerics.device},
            {"instruction_set", numerics.instruction_set},
            {"version", numerics.version},
            {"fingerprint", numerics.fingerprint}};
}

Numerics numerics_from(const Json& json) {
    return {.device = json.at("device"),
            .instruction_set = json.at("instruction_set"),
            .version = json.at("version"),
            .fingerprint = json.at("fingerprint")};
}

// What differs, and what would bring the old bits back.
std::string difference_text(const Numerics& before, const Numerics& now) {
    if (before.device != now.device) {
        return cat("it was computed on the device \"", before.device, "\", and this run uses \"", now.device,
                   "\". For the old bits: --set compute.device=", before.device);
    }
    if (before.version != now.version) {
        return cat("it was computed by a version of accrue with other kernels (numerics version ", before.version,
                   "; this one has ", now.version, "). For the old bits: that version");
    }
    if (before.instruction_set != now.instruction_set && now.device == word_of(DeviceKind::cuda)) {
        return cat("it was computed by a GPU with \"", before.instruction_set, "\", and this one has \"",
                   now.instruction_set, "\". For the old bits: such a GPU with those libraries");
    }
    if (before.instruction_set != now.instruction_set) {
        return cat("it was computed with the instruction set \"", before.instruction_set, "\", and this run uses \"",
                   now.instruction_set, "\". For the old bits: --set compute.instruction_set=", before.instruction_set,
                   " on a processor that has it");
    }
    return cat("a probe grain, computed as then, gives other bits now (", before.fingerprint.substr(0, 8), ", now ",
               now.fingerprint.substr(0, 8),
               "): the program was built otherwise, or this machine computes otherwise. For the old bits: the same "
               "program on a machine like the one before");
}

}  // namespace

Numerics numerics_of(const Settings& settings, const ModelSpec& model, int64_t longest_sample, Pool& pool) {
    Probed probe = probed(settings, model, longest_sample, pool);
    return {.device = std::string(word_of(device_of(settings.compute).name.kind)),
            .instruction_set = probe.device.empty() ? set_of_bits(settings.compute) : std::move(probe.device),
            .version = kNumericsVersion,
            .fingerprint = std::move(probe.fingerprint)};
}

NumericsRecord continued_numerics(const std::optional<NumericsRecord>& stored, const Numerics& now, int64_t step,
                                  OtherBits other_bits) {
    if (stored && stored->now == now) {
        return *stored;
    }
    const Numerics before = stored ? stored->now : Numerics{};
    if (other_bits == OtherBits::refuse) {
        throw Error(cat("continuing this run here would give other bits: ",
                        stored ? difference_text(before, now)
                               : "its checkpoint is of an older version of accrue, which did not say how it computed",
                        ". To go on with other bits, which the run then records: --accept-other-bits"));
    }
    NumericsRecord record{.now = now,
                          .changes = stored ? stored->changes : std::vector<NumericsRecord::Change>(),
                          .guests = stored ? stored->guests : std::vector<NumericsRecord::Guest>()};
    record.changes.push_back({.step = step, .from = before, .to = now});
    return record;
}

std::string text_of(const Numerics& numerics) {
    if (numerics == Numerics{}) {
        return "unknown";
    }
    return cat(numerics.device, numerics.instruction_set.empty() ? "" : " with ", numerics.instruction_set,
               ", numerics version ", numerics.version, ", probe ", numerics.fingerprint.substr(0, 8));
}

std::string text_of(const NumericsRecord::Guest& guest) {
    return cat("mixed: since step ", guest.step, " workers with other bits take part (", guest.worker, " with ",
               text_of(guest.numerics), "), so that the weights depend on who computed what");
}

std::string to_json(const NumericsRecord& record) {
    Json json = {{"now", json_of(record.now)}, {"changes", Json::array()}};
    for (const auto& [step, from, to] : record.changes) {
        json["changes"].push_back({{"step", step}, {"from", json_of(from)}, {"to", json_of(to)}});
    }
    for (const auto& [step, worker, numerics] : record.guests) {
        json["guests"].push_back({{"step", step}, {"worker", worker}, {"numerics", json_of(numerics)}});
    }
    return json.dump();
}

NumericsRecord numerics_record_of(const std::string& text) {
    const Json json = Json::parse(text);
    NumericsRecord record{.now = numerics_from(json.at("now")), .changes = {}};
    for (const Json& change : json.at("changes")) {
        record.changes.push_back({.step = change.at("step"),
                                  .from = numerics_from(change.at("from")),
                                  .to = numerics_from(change.at("to"))});
    }
    for (const Json& guest : json.value("guests", Json::array())) {
        record.guests.push_back(
            {.step = guest.at("step"), .worker = guest.at("worker"), .numerics = numerics_from(guest.at("numerics"))});
    }
    return record;
}

}  // namespace accrue
