#include "accrue/model/decoder/spec.h"

#include <algorithm>

#include <fmt/format.h>

#include "accrue/base/error.h"
#include "accrue/model/decoder.h"
#include "accrue/model/decoder/gguf_model.h"
#include "accrue/model/shape.h"

namespace accrue {
namespace {

std::string positions_text(const RopeConfig& rope) {
    switch (rope.kind) {
        case RopeConfig::Kind::none:
            return "learned";
        case RopeConfig::Kind::plain:
            return fmt::format("rotary, theta {}", rope.theta);
        case RopeConfig::Kind::linear:
            return fmt::format("rotary, theta {}, linear by {}", rope.theta, rope.factor);
        case RopeConfig::Kind::llama3:
            return fmt::format("rotary, theta {}, llama3 by {}", rope.theta, rope.factor);
    }
    return "";
}

class DecoderSpec final : public ModelSpec {
public:
    explicit DecoderSpec(ModelConfig config)
        : ModelSpec({.family = config.family,
                     .vocabulary = config.vocabulary,
                     .positions = config.positions,
                     .blocks = config.layers,
                     .config_json = config.source_json,
                     .computation_json = accrue::computation_json(config),
                     .parameters = decoder_parameters(config).list}),
          config_(std::move(config)) {}

    [[nodiscard]] std::unique_ptr<Model> make(const ModelOptions& options, Kernels& kernels) const override {
        return std::make_unique<Decoder>(config_, options, kernels);
    }

    [[nodiscard]] std::shared_ptr<const ModelSpec> at_most(const ModelLimits& limits) const override {
        ModelConfig smaller = config_;
        smaller.layers = std::min(smaller.layers, limits.blocks);
        smaller.vocabulary = std::min(smaller.vocabulary, limits.vocabulary);
        smaller.positions = std::min(smaller.positions, limits.positions);
        return decoder_spec(std::move(smaller));
    }

    // 6 for each parameter of a product and token (lookup tables are no products, the head counts once even where it is
    // the embedding), and 6 * layers * attention width * tokens^2 for attention, of which causality leaves half. Nothing
    // computed twice counts.
    [[nodiscard]] double gradient_flops(int64_t tokens) const override {
        const DecoderParameters decoder = decoder_parameters(config_);
        int64_t matrices = decoder.head.in * decoder.head.out;
        for (const BlockParameters& block : decoder.blocks) {
            for (const LinearParameters* product :
                 {&block.qkv, &block.attention_output, &block.mlp_input, &block.mlp_output}) {
                matrices += product->in * product->out;
            }
        }
        const auto length = static_cast<double>(tokens);
        const auto attention_width = static_cast<double>(config_.heads * config_.head_size);
        return 6 * static_cast<double>(matrices) * length +
               6 * static_cast<double>(config_.layers) * attention_width * length * length;
    }

    // Of a tied embedding: the slot of each row that waits for a second source (HeldRows), until it is uploaded.
    [[nodiscard]] int64_t host_bytes_of_grain() const override {
        return config_.tied ? config_.vocabulary * static_cast<int64_t>(sizeof(int32_t)) : 0;
    }

    [[nodiscard]] std::vector<std::pair<std::string, std::string>> description() const override {
        return {
            {"family", config_.family},
            {"layers", cat(config_.layers)},
            {"width", cat(config_.width)},
            {"heads", cat(config_.heads, " of ", config_.head_size, ", ", config_.key_heads, " for keys and values")},
            {"ffn", cat(config_.ffn)},
            {"vocabulary", cat(config_.vocabulary)},
            {"positions", cat(config_.positions, ", ", positions_text(config_.rope))},
            {"head", config_.tied ? "the embedding" : "its own"}};
    }

    int64_t write_gguf(const GgufTarget& target, std::span<const float> weights) const override {
        return write_gguf_model(config_, parameters(), weights, target);
    }

private:
    ModelConfig config_;
};

}  // namespace

std::shared_ptr<const ModelSpec> decoder_spec(ModelConfig config) {
    return std::make_shared<DecoderSpec>(std::move(config));
}

ModelFamily decoder_family() {
    return {
        .names = decoder_names(),
        .presets = preset_names(),
        .parse = [](std::string_view json, const std::string& where,
                    int64_t sequence_length) { return decoder_spec(parse_model_config(json, where, sequence_length)); },
        .shaped = [](const std::string& preset, const ModelShape& shape,
                     const Words& words) { return decoder_spec(shaped_config(preset, shape, words)); }};
}

}  // namespace accrue
