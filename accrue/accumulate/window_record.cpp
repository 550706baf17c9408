#include "accrue/accumulate/window_record.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "accrue/accumulate/loss_scale.h"
#include "accrue/base/error.h"
#include "accrue/base/received_json.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

// No run has more samples, steps or tokens, and sums of a few such numbers fit.
constexpr int64_t kMost = int64_t{1} << 48;
// No unit's exponent is further from 0.
constexpr int64_t kFarthestExponent = 4096;

[[noreturn]] void fail_record(const std::string& why) {
    throw Error("the record of a window is damaged: " + why);
}

int64_t whole_number(const Json& value, int64_t least, int64_t most, const std::string& name) {
    const bool is_huge = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(most);
    if (!value.is_number_integer() || is_huge || value.get<int64_t>() > most || value.get<int64_t>() < least) {
        fail_record(cat(name, " is ", value.dump(), ", not a whole number from ", least, " to ", most));
    }
    return value.get<int64_t>();
}

int64_t number_at(const Json& json, const std::string& name, int64_t least) {
    return whole_number(json.at(name), least, kMost, name);
}

double finite_at(const Json& json, const std::string& name) {
    const double value = json.at(name);
    if (!std::isfinite(value)) {
        fail_record(name + " is not finite");
    }
    return value;
}

uint64_t seed_at(const Json& json, const std::string& name) {
    if (!json.at(name).is_number_unsigned()) {
        fail_record(cat(name, " is ", json.at(name).dump(), ", not a whole number from 0"));
    }
    return json.at(name);
}

// Records of older versions do not tell it.
int64_t loss_scale_from(const Json& json) {
    const int64_t scale = json.contains("loss_scale") ? number_at(json, "loss_scale", 1) : 1;
    if (!LossScale::is_possible(scale)) {
        fail_record(cat("loss_scale is ", scale, ", not a power of two from ", LossScale::kSmallest, " to ",
                        LossScale::kLargest));
    }
    return scale;
}

Units units_from(const Json& json) {
    std::vector<int32_t> exponents;
    for (const Json& exponent : json) {
        exponents.push_back(
            static_cast<int32_t>(whole_number(exponent, -kFarthestExponent, kFarthestExponent, "a unit")));
    }
    return Units(std::move(exponents));
}

Window window_from(const Json& json) {
    return {.first = {.epoch = number_at(json, "epoch", 0), .place = number_at(json, "place", 0)},
            .samples = number_at(json, "samples", 1),
            .grain_samples = number_at(json, "grain_samples", 1),
            .ends_epoch = json.at("ends_epoch"),
            .is_short = json.at("is_short")};
}

WindowRecord record_from(const Json& json) {
    const bool has_tokens = json.contains("counted_tokens");
    return {.window = window_from(json),
            .step = number_at(json, "step", 1),
            .units = units_from(json.at("units")),
            .replay = number_at(json, "replay", 0),
            .rate = finite_at(json, "rate"),
            .beta2 = finite_at(json, "beta2"),
            .rounding_seed = seed_at(json, "rounding_seed"),
            .loss_scale = loss_scale_from(json),
            .counted_tokens = has_tokens ? std::optional(number_at(json, "counted_tokens", 0)) : std::nullopt};
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
                 {"loss_scale", record.loss_scale},
                 {"units", record.units.exponents()}};
    if (record.counted_tokens) {
        json["counted_tokens"] = *record.counted_tokens;
    }
    return json.dump();
}

WindowRecord window_record_of(const std::string& text) {
    Json json;
    try {
        json = received_json(text);
    } catch (const std::exception& error) {
        fail_record(error.what());
    }
    try {
        return record_from(json);
    } catch (const Json::exception& error) {
        fail_record(error.what());
    }
}

}  // namespace accrue
