#include "accrue/model/config_fields.h"

#include <cmath>
#include <limits>

#include "accrue/base/error.h"

namespace accrue {

ConfigFields::ConfigFields(nlohmann::json json, std::string where, std::string prefix)
    : json_(std::move(json)), where_(std::move(where)), prefix_(std::move(prefix)) {
    if (!json_.is_object()) {
        const std::string name = prefix_.empty() ? "the text" : prefix_.substr(0, prefix_.size() - 1);
        throw Error(cat(where_, ": ", name, " must be a JSON object, but is ", json_.dump(), "."));
    }
}

ConfigFields ConfigFields::parse(std::string_view text, const std::string& where) {
    try {
        return {nlohmann::json::parse(text), where};
    } catch (const nlohmann::json::exception& error) {
        throw Error(cat(where, " is not valid JSON: ", error.what()));
    }
}

int64_t ConfigFields::size(const std::string& key, int64_t otherwise) const {
    if (!has(key)) {
        return otherwise;
    }
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    // An unsigned above the signed range comes out negative.
    if (!json_[key].is_number_integer() || json_[key].get<int64_t>() < 1 || json_[key].get<int64_t>() > kMost) {
        refuse(key, cat("must be an integer from 1 to ", kMost));
    }
    return json_[key].get<int64_t>();
}

double ConfigFields::number(const std::string& key, double otherwise) const {
    if (!has(key)) {
        return otherwise;
    }
    if (!json_[key].is_number()) {
        refuse(key, "must be a number");
    }
    return json_[key].get<double>();
}

double ConfigFields::positive(const std::string& key, double otherwise) const {
    const double value = number(key, otherwise);
    if (!(value > 0)) {
        refuse(key, "must be above 0");
    }
    return value;
}

float ConfigFields::dropout(const std::string& key, double otherwise) const {
    const double value = number(key, otherwise);
    if (!(value >= 0 && value < 1)) {
        refuse(key, "must be at least 0 and below 1");
    }
    return static_cast<float>(value);
}

bool ConfigFields::truth(const std::string& key, bool otherwise) const {
    if (!has(key)) {
        return otherwise;
    }
    if (!json_[key].is_boolean()) {
        refuse(key, "must be true or false");
    }
    return json_[key].get<bool>();
}

std::string ConfigFields::text(const std::string& key, const std::string& otherwise) const {
    if (!has(key)) {
        return otherwise;
    }
    if (!json_[key].is_string()) {
        refuse(key, "must be a text");
    }
    return json_[key].get<std::string>();
}

ConfigFields ConfigFields::object(const std::string& key) const {
    return {json_.at(key), where_, cat(prefix_, key, ".")};
}

void ConfigFields::refuse(const std::string& key, const std::string& reason) const {
    const std::string value = json_.contains(key) ? json_[key].dump() : "absent";
    throw Error(cat(where_, ": ", prefix_, key, " is ", value, ", but ", reason, "."));
}

void ConfigFields::require(const std::string& key, const nlohmann::json& supported) const {
    if (has(key) && json_[key] != supported) {
        refuse(key, cat("only ", supported.dump(), " is supported"));
    }
}

void ConfigFields::require_named(const std::string& key, const std::string& reason) const {
    if (!has(key)) {
        refuse(key, reason);
    }
}

}  // namespace accrue
