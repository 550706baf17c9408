#include "accrue/accumulate/window_record.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

Window window_from(const Json& json) {
    return {.first = {.epoch = json.at("epoch"), .place = json.at("place")},
            .samples = json.at("samples"),
            .grain_samples = json.at("grain_samples"),
            .ends_epoch = json.at("ends_epoch"),
            .is_short = json.at("is_short")};
}

WindowRecord record_from(const Json& json) {
    WindowRecord record{.window = window_from(json),
                        .step = json.at("step"),
                        .units = Units(json.at("units").get<std::vector<int32_t>>()),
                        .replay = json.at("replay"),
                        .rate = json.at("rate"),
                        .beta2 = json.at("beta2"),
                        .rounding_seed = json.at("rounding_seed")};
    if (json.contains("counted_tokens")) {
        record.counted_tokens = json["counted_tokens"].get<int64_t>();
    }
    return record;
}

// No window that a run could open.
bool is_impossible(const WindowRecord& record) {
    const Window& window = record.window;
    return window.first.epoch < 0 || window.first.place < 0 || window.samples < 1 || window.grain_samples < 1 ||
           record.step < 1 || record.replay < 0 || record.counted_tokens.value_or(0) < 0 ||
           !std::isfinite(record.rate) || !std::isfinite(record.beta2);
}

}  // namespace

std::string to_json(const WindowRecord& record) {
    const Window& window = record.window;
    Json json = {{"step", record.step},
                 {"epoch", window.first.epoch},
                 {"place", window.first.place},
                 {"samples", window.samples},
                 {"grain_samples", window.grain_samples},
                 {"ends_epoch", window.ends_epoch},
                 {"is_short", window.is_short},
                 {"replay", record.replay},
                 {"rate", record.rate},
                 {"beta2", record.beta2},
                 {"rounding_seed", record.rounding_seed},
                 {"units", record.units.exponents()}};
    if (record.counted_tokens) {
        json["counted_tokens"] = *record.counted_tokens;
    }
    return json.dump();
}

WindowRecord window_record_of(const std::string& text) {
    try {
        WindowRecord record = record_from(Json::parse(text));
        if (is_impossible(record)) {
            throw Error("the record of a window is damaged: its numbers belong to no window");
        }
        return record;
    } catch (const Json::exception& error) {
        throw Error(cat("the record of a window is damaged: ", error.what()));
    }
}

}  // namespace accrue
