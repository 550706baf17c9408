#include "accrue/train/stored_window.h"

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

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

// Version 1 kept a ledger as one array for each field.
GrainLedger read_arrays(const SafetensorsFile& file, int64_t tensors) {
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
            ledger.record(grain, tensor) = {.squares = squares[i], .largest = largest[i], .not_finite = finite[i] == 0};
        }
    }
    return ledger;
}

// Version 1 told no more of a window; the step that goes on with it completes the record.
WindowRecord record_of_version_1(const Engine& engine, const Json& state) {
    WindowRecord record = engine.record_of(Window{}, std::nullopt);
    record.units = Units(state.at("window_units").get<std::vector<int32_t>>());
    record.replay = state.at("window_replays");
    return record;
}

GrainLedger read_ledger(const SafetensorsFile& file, int64_t grains, int64_t tensors) {
    const StoredTensor& stored = file.at(kStoredLedger);
    try {
        return GrainLedger::from_bytes(read_array<std::byte>(file, kStoredLedger, stored.bytes), grains, tensors);
    } catch (const Error& error) {
        throw Error(cat(file.path().string(), ": ", error.what()));
    }
}

}  // namespace

Json stored_window(const Engine& engine) {
    return engine.finished_grains() > 0 ? Json::parse(to_json(*engine.state.open)) : Json();
}

bool has_open_window(const Json& state) {
    return state.at("version") == 1 ? state.at("window_open").get<bool>() : !state.at("window").is_null();
}

void restore_window(Engine& engine, const Json& state, const SafetensorsFile& file) {
    const int64_t tensors = std::ssize(engine.sum.tensors());
    const bool is_version_1 = state.at("version") == 1;
    WindowRecord record =
        is_version_1 ? record_of_version_1(engine, state) : window_record_of(state.at("window").dump());
    engine.sum.restore(is_version_1 ? read_arrays(file, tensors) : read_ledger(file, record.window.grains(), tensors),
                       record.units, record.rounding_seed, record.loss_scale);
    engine.state.open = std::move(record);
}

}  // namespace accrue
