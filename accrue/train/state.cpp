#include "accrue/train/state.h"

#include <functional>

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/hash.h"
#include "accrue/model/model_folder.h"
#include "accrue/train/settings_words.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStateVersion = 1;

std::span<const std::byte> bytes_of_values(const auto& values) {
    return std::as_bytes(std::span(values));
}

// The ledger of an open window as arrays, so that doubles keep their bits.
struct LedgerArrays {
    std::vector<uint8_t> finished;
    std::vector<double> loss_sum;
    std::vector<int64_t> counted_tokens;
    std::vector<double> squares;
    std::vector<float> largest;
    std::vector<uint8_t> finite;

    explicit LedgerArrays(const GrainLedger& ledger) {
        for (int64_t grain = 0; grain < ledger.grains(); ++grain) {
            finished.push_back(ledger.grain(grain).finished ? 1 : 0);
            loss_sum.push_back(ledger.grain(grain).loss_sum);
            counted_tokens.push_back(ledger.grain(grain).counted_tokens);
            for (int64_t tensor = 0; tensor < ledger.tensors(); ++tensor) {
                const GrainRecord& record = ledger.record(grain, tensor);
                squares.push_back(record.squares);
                largest.push_back(record.largest);
                finite.push_back(record.finite ? 1 : 0);
            }
        }
    }

    [[nodiscard]] std::vector<TensorToStore> tensors() const {
        const auto grains = static_cast<int64_t>(finished.size());
        const int64_t each = grains > 0 ? static_cast<int64_t>(squares.size()) / grains : 0;
        return {{"finished", "U8", {grains}, bytes_of_values(finished)},
                {"loss_sum", "F64", {grains}, bytes_of_values(loss_sum)},
                {"counted_tokens", "I64", {grains}, bytes_of_values(counted_tokens)},
                {"squares", "F64", {grains, each}, bytes_of_values(squares)},
                {"largest", "F32", {grains, each}, bytes_of_values(largest)},
                {"finite", "U8", {grains, each}, bytes_of_values(finite)}};
    }
};

template <class T>
std::vector<T> read_array(const SafetensorsFile& file, const std::string& name, int64_t elements) {
    const StoredTensor& tensor = file.at(name);
    std::vector<T> values(static_cast<size_t>(elements));
    if (tensor.bytes != static_cast<int64_t>(values.size() * sizeof(T))) {
        throw Error(cat(file.path().string(), ": ", name, " has ", tensor.bytes, " bytes instead of ",
                        values.size() * sizeof(T)));
    }
    file.read_bytes(tensor, std::as_writable_bytes(std::span(values)));
    return values;
}

GrainLedger read_ledger(const SafetensorsFile& file, int64_t tensors) {
    const int64_t grains = file.at("finished").elements();
    GrainLedger ledger(grains, tensors);
    const auto finished = read_array<uint8_t>(file, "finished", grains);
    const auto loss_sum = read_array<double>(file, "loss_sum", grains);
    const auto counted = read_array<int64_t>(file, "counted_tokens", grains);
    const auto squares = read_array<double>(file, "squares", grains * tensors);
    const auto largest = read_array<float>(file, "largest", grains * tensors);
    const auto finite = read_array<uint8_t>(file, "finite", grains * tensors);
    for (int64_t grain = 0; grain < grains; ++grain) {
        const auto g = static_cast<size_t>(grain);
        ledger.grain(grain) = {.finished = finished[g] != 0, .loss_sum = loss_sum[g], .counted_tokens = counted[g]};
        for (int64_t tensor = 0; tensor < tensors; ++tensor) {
            const auto i = static_cast<size_t>(grain * tensors + tensor);
            ledger.record(grain, tensor) = {.squares = squares[i], .largest = largest[i], .finite = finite[i] != 0};
        }
    }
    return ledger;
}

std::string name_of(const StoredMoment::Part& part, const ParameterList& parameters) {
    return cat(parameters[part.tensor].name, part.suffix);
}

std::vector<TensorToStore> moment_tensors(const ParameterList& parameters, const StoredMoment& moment) {
    std::vector<TensorToStore> tensors;
    for (const StoredMoment::Part& part : moment.parts) {
        const std::vector<int64_t> scales = {static_cast<int64_t>(part.bytes.size() / sizeof(float))};
        tensors.push_back({name_of(part, parameters), std::string(part.dtype),
                           part.suffix.empty() ? parameters[part.tensor].shape : scales, part.bytes});
    }
    return tensors;
}

std::span<float> flat_of(View<float> view) {
    return {view.data, static_cast<size_t>(view.columns)};
}

// Tensors to be read, each by one thread. What is added must live until they are.
class TensorReads {
public:
    void add_flat(const SafetensorsFile& file, const ParameterList& parameters, std::span<float> flat) {
        for (const Parameter& parameter : parameters.parameters) {
            const auto into =
                flat.subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.elements()));
            add(static_cast<int64_t>(into.size_bytes()),
                [&file, name = parameter.name, into] { file.read_floats(name, into); });
        }
    }

    void add_moment(const SafetensorsFile& file, const ParameterList& parameters, const StoredMoment& moment) {
        for (const StoredMoment::Part& part : moment.parts) {
            const std::string name = name_of(part, parameters);
            const StoredTensor& found = file.at(name);
            if (found.dtype != part.dtype || found.bytes != static_cast<int64_t>(part.bytes.size())) {
                throw Error(cat(file.path().string(), ": ", name, " has ", found.bytes, " bytes of ", found.dtype,
                                ", but this run keeps ", part.bytes.size(), " bytes of ", part.dtype,
                                ". Put optimizer.moments back, or start a new run."));
            }
            add(found.bytes, [&file, &found, into = part.bytes] { file.read_bytes(found, into); });
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
    const auto bytes = sum.bytes();
    const int64_t elements = static_cast<int64_t>(bytes.size()) / bytes_of(sum.kind());
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
    const Engine::State& state = engine.state;
    const Optimizer::Counters& counters = engine.optimizer->counters();
    Json json = {{"version", kStateVersion},
                 {"step", state.step},
                 {"epoch", state.position.epoch},
                 {"place", state.position.place},
                 {"tokens", state.tokens},
                 {"skipped_in_a_row", state.skipped_in_a_row},
                 {"units", state.units.exponents()},
                 {"window_open", state.window_open},
                 {"window_units", state.window_open ? engine.sum.units().exponents() : std::vector<int32_t>()},
                 {"window_replays", state.replays},
                 {"updates", counters.updates},
                 {"beta1_power", counters.beta1_power},
                 {"beta2_power", counters.beta2_power},
                 {"definition", Json::parse(definition)},
                 {"model_config", engine.model.config().source_json}};
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
    const Json json = {{"model family", inputs.model.family},
                       {"model parameters", parameters.trainable()},
                       {"model tensors", shapes.digest()},
                       {"model", Json::parse(computation_json(inputs.model))},
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
    const ParameterList& parameters = engine.model.parameters();
    const auto flat = [](View<float> view) {
        return std::span<const float>(view.data, static_cast<size_t>(view.columns));
    };
    std::vector<CheckpointFile> files;
    files.push_back({.name = "weights", .tensors = named_tensors(parameters, flat(engine.weights.master))});
    for (const StoredMoment& moment : engine.optimizer->moments()) {
        files.push_back({.name = moment.name, .tensors = moment_tensors(parameters, moment)});
    }
    const LedgerArrays ledger(engine.sum.ledger());
    if (engine.state.window_open) {
        auto tensors = ledger.tensors();
        tensors.push_back(sums_tensor(engine.sum));
        files.push_back({.name = "window", .tensors = std::move(tensors)});
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
    if (json.at("version") != kStateVersion) {
        throw Error(cat(checkpoint.string(), " has format version ", json.at("version").dump(),
                        ", this program reads version ", kStateVersion, "."));
    }
    check_definition(checkpoint, json.at("definition"), Json::parse(definition));
    const ParameterList& parameters = engine.model.parameters();
    TensorReads reads;
    reads.add_flat(reader.file("weights"), parameters, flat_of(engine.weights.master));
    const std::vector<StoredMoment> moments = engine.optimizer->moments();
    for (const StoredMoment& moment : moments) {
        reads.add_moment(reader.file(moment.name), parameters, moment);
    }
    reads.run(work);
    engine.optimizer->restore(
        {.updates = json.at("updates"), .beta1_power = json.at("beta1_power"), .beta2_power = json.at("beta2_power")});
    engine.state = {.step = json.at("step"),
                    .position = {.epoch = json.at("epoch"), .place = json.at("place")},
                    .units = Units(json.at("units").get<std::vector<int32_t>>()),
                    .skipped_in_a_row = json.at("skipped_in_a_row"),
                    .tokens = json.at("tokens"),
                    .replays = json.at("window_replays"),
                    .window_open = json.at("window_open")};
    if (engine.state.window_open) {
        const SafetensorsFile& window = reader.file("window");
        engine.sum.restore(read_ledger(window, parameters.count()),
                           Units(json.at("window_units").get<std::vector<int32_t>>()), engine.rounding_seed());
        window.read_bytes(window.at("sums"), engine.sum.bytes());
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
                                std::span<float> weights, const LongWork& work) {
    TensorReads reads;
    reads.add_flat(checkpoint.file("weights"), parameters, weights);
    reads.run(work);
}

}  // namespace accrue
