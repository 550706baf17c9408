#include <nlohmann/json.hpp>

#include "accrue/model/decoder/config.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const RopeConfig& rope) {
    switch (rope.kind) {
        case RopeConfig::Kind::none:
            return "none";
        case RopeConfig::Kind::plain:
            return {{"kind", "plain"}, {"theta", rope.theta}};
        case RopeConfig::Kind::linear:
            return {{"kind", "linear"}, {"theta", rope.theta}, {"factor", rope.factor}};
        case RopeConfig::Kind::llama3:
            break;
    }
    return {{"kind", "llama3"},
            {"theta", rope.theta},
            {"factor", rope.factor},
            {"low_frequency", rope.low_frequency},
            {"high_frequency", rope.high_frequency},
            {"original_positions", rope.original_positions}};
}

}  // namespace

std::string computation_json(const ModelConfig& config) {
    const Json json = {{"family", config.family},
                       {"vocabulary", config.vocabulary},
                       {"width", config.width},
                       {"layers", config.layers},
                       {"heads", config.heads},
                       {"key_heads", config.key_heads},
                       {"head_size", config.head_size},
                       {"ffn", config.ffn},
                       {"norm", config.norm == ModelConfig::Norm::layer ? "layer" : "rms"},
                       {"norm_epsilon", config.norm_epsilon},
                       {"mlp", config.mlp == ModelConfig::Mlp::gelu ? "gelu" : "swiglu"},
                       {"learned_positions", config.learned_positions ? config.positions : 0},
                       {"qkv_bias", config.qkv_bias},
                       {"attention_output_bias", config.attention_output_bias},
                       {"mlp_bias", config.mlp_bias},
                       {"query_key_norm", config.query_key_norm},
                       {"tied", config.tied},
                       {"rope", json_of(config.rope)},
                       {"embedding_dropout", config.embedding_dropout},
                       {"attention_dropout", config.attention_dropout},
                       {"residual_dropout", config.residual_dropout}};
    return json.dump();
}

}  // namespace accrue
