#include "accrue/train/state.h"

#include <algorithm>
#include <array>
#include <functional>

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/hash.h"
#include "accrue/model/model_folder.h"
#include "accrue/train/run_facts.h"
#include "accrue/train/settings_words.h"
#include "accrue/train/stored_window.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

// Version 1 knew less of an open window (stored_window.cpp reads it).
constexpr int kStateVersion = 2;
constexpr int kOldestStateVersion = 1;

std::string name_of(const StoredMoment::Part& part, const ParameterList& parameters) {
    return cat(parameters.of_gradient(part.tensor).name, part.suffix);
}

std::vector<TensorToStore> moment_tensors(Kernels& kernels, const ParameterList& parameters,
                                          const StoredMoment& moment) {
    std::vector<TensorToStore> tensors;
    for (const StoredMoment::Part& part : moment.parts) {
        const std::vector<int64_t> scales = {static_cast<int64_t>(part.device_bytes.size() / sizeof(float))};
        tensors.push_back({name_of(part, parameters), std::string(part.dtype),
                           part.suffix.empty() ? parameters.of_gradient(part.tensor).shape : scales,
                           source_of(kernels, part.device_bytes)});
    }
    return tensors;
}

// Brings stored bytes to a device.
void read_to_device(const SafetensorsFile& file, const StoredTensor& tensor, Kernels& kernels,
                    std::span<std::byte> device) {
    constexpr size_t kPieceBytes = static_cast<size_t>(kPutElements) * sizeof(float);
    std::array<std::byte, kPieceBytes> piece;
    for (size_t first = 0; first < device.size(); first += kPieceBytes) {
        const auto some = std::span(piece).first(std::min(kPieceBytes, device.size() - first));
        file.read_bytes(tensor, static_cast<int64_t>(first), some);
        upload(kernels, std::span<const std::byte>(some), device.data() + first);
    }
}

// Tensors to be read, each by one thread. What is added must live until they are.
class TensorReads {
public:
    void add_flat(const SafetensorsFile& file, const ParameterList& parameters, const PutWeights& put) {
        for (const Parameter& parameter : parameters.parameters) {
            file.require_elements(parameter.name, parameter.elements());
            add(parameter.elements() * static_cast<int64_t>(sizeof(float)), [&file, &parameter, put] {
                std::array<float, kPutElements> values;
                for (int64_t first = 0; first < parameter.elements(); first += kPutElements) {
                    const auto some = std::span(values).first(
                        static_cast<size_t>(std::min(kPutElements, parameter.elements() - first)));
                    file.read_floats(parameter.name, first, some);
                    put(parameter.offset + first, some);
                }
            });
        }
    }

    void add_moment(const SafetensorsFile& file, const ParameterList& parameters, const StoredMoment& moment,
                    Kernels& kernels) {
        for (const StoredMoment::Part& part : moment.parts) {
            const std::string name = name_of(part, parameters);
            const StoredTensor& found = file.at(name);
            if (found.dtype != part.dtype || found.bytes != std::ssize(part.device_bytes)) {
                throw Error(cat(file.path().string(), ": ", name, " has ", found.bytes, " bytes of ", found.dtype,
                                ", but this run keeps ", part.device_bytes.size(), " bytes of ", part.dtype,
                                ". Put optimizer.moments back, or start a new run."));
            }
            add(found.bytes,
                [&file, &found, &kernels, into = part.device_bytes] { read_to_device(file, found, kernels, into); });
        }
    }

    void run(const LongWork& work) const {
        WorkCount count(work, bytes_);
        work.run(std::ssize(reads_), [&](int64_t item) {
            const Read& read = reads_[static_cast<size_t>(item)];
            read.action();
            count.add(read.bytes);
        });
    }

private:
    struct Read {
        int64_t bytes = 0;
        std::function<void()> action;
    };

    void add(int64_t bytes, std::function<void()> action) {
        reads_.push_back({.bytes = bytes, .action = std::move(action)});
        bytes_ += bytes;
    }

    std::vector<Read> reads_;
    int64_t bytes_ = 0;
};

// A window's sums as they lie in memory.
TensorToStore sums_tensor(const GradientSum& sum) {
    const ByteSource bytes = sum.source();
    const int64_t elements = bytes.size() / bytes_of(sum.kind());
    switch (sum.kind()) {
        case SumKind::exact:
            return {"sums", "I64", {elements}, bytes};
        case SumKind::fp32:
            return {"sums", "F32", {elements}, bytes};
        case SumKind::bf16_kahan:
            return {"sums", "BF16", {elements, 2}, bytes};  // each sum, and what it lost
        default:
            return {"sums", "BF16", {elements}, bytes};
    }
}

Json state_json(const Engine& engine, const std::string& definition, const std::optional<NumericsRecord>& numerics) {
    Json json = {{"version", kStateVersion}};
    json.update(facts_json(engine));
    json["definition"] = Json::parse(definition);
    json["model_config"] = engine.spec->config_json();
    if (numerics) {
        json["numerics"] = Json::parse(to_json(*numerics));
    }
    return json;
}

// A key's value in a checkpoint. What became part of a definition later had one value before, except what a model computes
// by, which was not told.
Json defined(const Json& stored, const std::string& key, const Json& wanted) {
    static const Json kBefore = {{"optimizer.moments", "fp32"}, {"window.last", "short"}};
    if (stored.contains(key)) {
        return stored.at(key);
    }
    return key == "model" ? wanted : kBefore.value(key, Json());
}

// Another model than the checkpoint's, of the same shape: somebody changed its config.json.
void check_model(const std::filesystem::path& checkpoint, const Json& stored, const Json& wanted) {
    for (const auto& [key, value] : wanted.items()) {
        const Json found = stored.value(key, Json());
        if (found != value) {
            throw Error(cat(checkpoint.string(), " belongs to another model: it was trained with ", key, " = ",
                            found.dump(), ", and the configuration now says ", value.dump(),
                            ". Put the model's config.json or the settings back as they were, or start a new run."));
        }
    }
}

// Compares what a checkpoint was made with to what the run asks for.
void check_definition(const std::filesystem::path& checkpoint, const Json& stored, const Json& wanted) {
    for (const auto& [key, value] : wanted.items()) {
        const Json found = defined(stored, key, value);
        if (key == "model") {
            check_model(checkpoint, found, value);
        } else if (found != value) {
            throw Error(cat(checkpoint.string(), " belongs to another run: it was made with ", key, " = ", found.dump(),
                            ", this run has ", value.dump(), ". Start a new run, or put the setting back."));
        }
    }
}

}  // namespace

std::string definition_of(const RunInputs& inputs, const ParameterList& parameters) {
    Hasher shapes;
    for (const Parameter& parameter : parameters.parameters) {
        shapes.add(std::as_bytes(std::span(parameter.name)));
        shapes.add(std::as_bytes(std::span(parameter.shape)));
    }
    const Settings& settings = inputs.settings;
    const Json json = {{"model family", inputs.model->family()},
                       {"model parameters", parameters.elements()},
                       {"model tensors", shapes.digest()},
                       {"model", Json::parse(inputs.model->computation_json())},
                       {"training data", inputs.train->fingerprint()},
                       {"data.order", word_of(settings.data.order)},
                       {"window.samples", settings.window.samples},
                       {"window.tokens", settings.window.tokens},
                       {"window.last", word_of(settings.window.last)},
                       {"window.grain_samples", settings.window.grain_samples},
                       {"optimizer.name", word_of(settings.optimizer.name)},
                       {"optimizer.moments", word_of(settings.optimizer.moments)},
                       {"compute.dtype", word_of(settings.compute.dtype)},
                       {"compute.sums", word_of(settings.compute.sums)},
                       {"run.seed", settings.run.seed}};
    return json.dump();
}

void save_state(Engine& engine, const std::string& definition, const std::filesystem::path& checkpoints,
                const std::optional<NumericsRecord>& numerics, const LongWork& work) {
    const ParameterList& parameters = engine.model->parameters();
    std::vector<CheckpointFile> files;
    files.push_back({.name = "weights", .tensors = named_tensors(parameters, engine.weights_source())});
    for (const StoredMoment& moment : engine.optimizer->moments()) {
        files.push_back({.name = moment.name, .tensors = moment_tensors(engine.kernels, parameters, moment)});
    }
    std::vector<std::byte> ledger;
    if (engine.finished_grains() > 0) {
        ledger = engine.sum.ledger().to_bytes();
        files.push_back({.name = "window",
                         .tensors = {{kStoredLedger, "U8", {std::ssize(ledger)}, ledger}, sums_tensor(engine.sum)}});
    }
    write_checkpoint(checkpoints, engine.state.step, files, state_json(engine, definition, numerics).dump(2) + "\n",
                     work);
}

void load_state(Engine& engine, const std::string& definition, const std::filesystem::path& checkpoint) {
    load_state(engine, definition, CheckpointReader(checkpoint));
}

void load_state(Engine& engine, const std::string& definition, const CheckpointReader& reader, const LongWork& work) {
    const std::filesystem::path& checkpoint = reader.path();
    const Json json = Json::parse(reader.state_json());
    if (json.at("version") < kOldestStateVersion || json.at("version") > kStateVersion) {
        throw Error(cat(checkpoint.string(), " has format version ", json.at("version").dump(),
                        ", this program reads versions ", kOldestStateVersion, " to ", kStateVersion, "."));
    }
    check_definition(checkpoint, json.at("definition"), Json::parse(definition));
    const ParameterList& parameters = engine.model->parameters();
    TensorReads reads;
    reads.add_flat(reader.file("weights"), parameters, engine.put_weights());
    const std::vector<StoredMoment> moments = engine.optimizer->moments();
    for (const StoredMoment& moment : moments) {
        reads.add_moment(reader.file(moment.name), parameters, moment, engine.kernels);
    }
    reads.run(work);
    restore_facts(engine, json, checkpoint.string());
    if (has_open_window(json)) {
        const SafetensorsFile& window = reader.file("window");
        restore_window(engine, json, window);
        const StoredTensor& sums = window.at("sums");
        if (sums.bytes != std::ssize(engine.sum.device_bytes())) {
            throw Error(cat(window.path().string(), ": sums has ", sums.bytes, " bytes instead of ",
                            engine.sum.device_bytes().size()));
        }
        read_to_device(window, sums, engine.kernels, engine.sum.device_bytes());
    }
    engine.refresh_copy();
}

CheckpointPlace place_of_checkpoint(const std::filesystem::path& checkpoint) {
    const Json json = Json::parse(read_checkpoint_state(checkpoint));
    return {.step = json.at("step"), .position = {.epoch = json.at("epoch"), .place = json.at("place")}};
}

std::optional<NumericsRecord> numerics_of_checkpoint(const std::filesystem::path& checkpoint) {
    const Json json = Json::parse(read_checkpoint_state(checkpoint));
    return json.contains("numerics") ? std::optional(numerics_record_of(json["numerics"].dump())) : std::nullopt;
}

std::optional<std::string> config_of_checkpoint(const std::filesystem::path& checkpoint) {
    const Json json = Json::parse(read_checkpoint_state(checkpoint));
    return json.contains("model_config") ? std::optional(json["model_config"].get<std::string>()) : std::nullopt;
}

void load_weights_of_checkpoint(const CheckpointReader& checkpoint, const ParameterList& parameters,
                                const PutWeights& put, const LongWork& work) {
    TensorReads reads;
    reads.add_flat(checkpoint.file("weights"), parameters, put);
    reads.run(work);
}

}  // namespace accrue
