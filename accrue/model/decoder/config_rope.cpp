#include "accrue/model/decoder/config_rope.h"

namespace accrue {
namespace {

// Hugging Face's, for every family here.
constexpr double kDefaultTheta = 10000;

constexpr const char* kKnownKinds = R"(the known kinds are "default", "linear" and "llama3")";

double required(const ConfigFields& scaling, const std::string& key) {
    scaling.require_named(key, "this kind of rotary positions needs it");
    return scaling.positive(key, 1);
}

RopeConfig read_llama3(const ConfigFields& scaling, RopeConfig rope) {
    rope.kind = RopeConfig::Kind::llama3;
    rope.factor = required(scaling, "factor");
    rope.low_frequency = required(scaling, "low_freq_factor");
    rope.high_frequency = required(scaling, "high_freq_factor");
    scaling.require_named("original_max_position_embeddings", "this kind of rotary positions needs it");
    rope.original_positions = scaling.size("original_max_position_embeddings", 1);
    if (rope.high_frequency <= rope.low_frequency) {
        scaling.refuse("high_freq_factor", "must be above low_freq_factor");
    }
    return rope;
}

RopeConfig read_scaling(const ConfigFields& scaling, RopeConfig rope) {
    scaling.require("partial_rotary_factor", 1.0);
    rope.theta = scaling.positive("rope_theta", rope.theta);
    const std::string kind_key = scaling.has("rope_type") || !scaling.has("type") ? "rope_type" : "type";
    if (!scaling.has(kind_key) && scaling.has("factor")) {
        scaling.refuse(kind_key, kKnownKinds);
    }
    const std::string kind = scaling.text(kind_key, "default");
    if (kind == "default") {
        return rope;
    }
    if (kind == "linear") {
        rope.kind = RopeConfig::Kind::linear;
        rope.factor = required(scaling, "factor");
        return rope;
    }
    if (kind == "llama3") {
        return read_llama3(scaling, rope);
    }
    scaling.refuse(kind_key, kKnownKinds);
}

}  // namespace

RopeConfig read_rope(const ConfigFields& fields) {
    fields.require("partial_rotary_factor", 1.0);
    RopeConfig rope;
    rope.kind = RopeConfig::Kind::plain;
    rope.theta = fields.positive("rope_theta", kDefaultTheta);
    if (fields.has("rope_parameters") && fields.has("rope_scaling")) {
        fields.refuse("rope_scaling", "rope_parameters is there too; only one of them can hold");
    }
    for (const char* key : {"rope_parameters", "rope_scaling"}) {
        if (fields.has(key)) {
            return read_scaling(fields.object(key), rope);
        }
    }
    return rope;
}

}  // namespace accrue
