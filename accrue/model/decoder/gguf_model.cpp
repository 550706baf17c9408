#include "accrue/model/decoder/gguf_model.h"

#include <cmath>
#include <set>

#include "accrue/base/error.h"
#include "accrue/model/decoder/gguf_layout.h"
#include "accrue/model/decoder/gguf_metadata.h"
#include "accrue/model/decoder/spec.h"
#include "accrue/model/export.h"
#include "accrue/model/model_folder.h"
#include "accrue/model/parameters.h"

namespace accrue {
namespace {

void require_rows(const GgufFile& file, const std::string& name, int64_t rows, int64_t columns) {
    const GgufTensor* tensor = file.find_tensor(name);
    if (tensor == nullptr || tensor->shape != std::vector<int64_t>{rows, columns}) {
        throw Error(cat(file.path().string(), ": tensor ", name,
                        tensor == nullptr ? " is missing."
                                          : cat(" is not ", rows, " x ", columns, ", which the metadata asks for.")));
    }
}

// What the metadata says is believed only where tensors bear it out: a file that names more or larger blocks than it
// has would make lists and sums of sizes as large as it likes.
void check_sizes(const GgufFile& file, const ModelConfig& config) {
    const bool is_gpt2 = config.family == "gpt2";
    require_rows(file, "token_embd.weight", config.vocabulary, config.width);
    if (is_gpt2) {
        require_rows(file, "position_embd.weight", config.positions, config.width);
    }
    require_rows(file, "blk.0.ffn_up.weight", config.ffn, config.width);
    require_rows(file, is_gpt2 ? "blk.0.attn_qkv.weight" : "blk.0.attn_q.weight",
                 is_gpt2 ? 3 * config.width : config.heads * config.head_size, config.width);
    for (int64_t block = 0; block < config.layers; ++block) {
        const std::string name = cat("blk.", block, ".attn_norm.weight");
        if (file.find_tensor(name) == nullptr) {
            throw Error(cat(file.path().string(), ": tensor ", name, " is missing, but the metadata names ",
                            config.layers, " blocks."));
        }
    }
}

const GgufTensor& tensor_at(const GgufFile& file, const GgufPlace& place) {
    const GgufTensor* tensor = file.find_tensor(place.name);
    if (tensor == nullptr) {
        throw Error(cat(file.path().string(), ": tensor ", place.name, " is missing."));
    }
    if (tensor->shape != place.shape) {
        throw Error(cat(file.path().string(), ": tensor ", place.name, " has ", tensor->elements(),
                        " numbers in a shape that the metadata does not ask for."));
    }
    return *tensor;
}

void check_finite(const GgufFile& file, const std::string& name, std::span<const float> values) {
    for (size_t i = 0; i < values.size(); ++i) {
        if (!std::isfinite(values[i])) {
            throw Error(cat(file.path().string(), ": tensor ", name, " holds ", values[i], " at element ", i, "."));
        }
    }
}

void check_all_known(const GgufFile& file, const std::vector<GgufPlace>& places) {
    std::set<std::string> known = {kRopeFactorsName};
    for (const GgufPlace& place : places) {
        known.insert(place.name);
    }
    for (const GgufTensor& tensor : file.tensors()) {
        if (!known.contains(tensor.name)) {
            throw Error(cat(file.path().string(), ": tensor ", tensor.name,
                            " is unknown to the model that the metadata describes."));
        }
    }
}

}  // namespace

GgufModel read_gguf_model(const std::filesystem::path& path) {
    const GgufFile file(path);
    GgufModel model;
    model.config = config_of_gguf(file);
    check_sizes(file, model.config);
    const ParameterList parameters = decoder_parameters(model.config).list;
    std::vector<GgufPlace> places;
    for (const Parameter& parameter : parameters.parameters) {
        places.push_back(gguf_place(model.config, parameter));
        (void)tensor_at(file, places.back());
    }
    check_all_known(file, places);
    // Only now is it known that the file holds as many numbers as are asked for here.
    model.weights.resize(static_cast<size_t>(parameters.flat_elements));
    for (size_t i = 0; i < places.size(); ++i) {
        const Parameter& parameter = parameters.parameters[i];
        std::vector<float> stored(static_cast<size_t>(parameter.elements()));
        file.read_floats(tensor_at(file, places[i]), stored);
        check_finite(file, places[i].name, stored);
        order_from_gguf(places[i], stored,
                        std::span(model.weights).subspan(static_cast<size_t>(parameter.offset), stored.size()));
    }
    return model;
}

ModelWithWeights read_gguf(const std::filesystem::path& path) {
    GgufModel model = read_gguf_model(path);
    return {.model = decoder_spec(std::move(model.config)), .weights = std::move(model.weights)};
}

int64_t write_gguf_model(const ModelConfig& config, const ParameterList& parameters, std::span<const float> weights,
                         const GgufTarget& target) {
    std::vector<GgufPlace> places;
    std::vector<GgufTensorToStore> tensors;
    for (const Parameter& parameter : parameters.parameters) {
        places.push_back(gguf_place(config, parameter));
        tensors.push_back({.name = places.back().name,
                           .format = places.back().always_fp32 ? FloatFormat::fp32 : target.format,
                           .shape = places.back().shape});
    }
    const bool has_factors = config.rope.kind == RopeConfig::Kind::llama3;
    if (has_factors) {
        tensors.push_back({.name = kRopeFactorsName, .shape = {config.head_size / 2}});
    }
    const GgufMetadata metadata = gguf_metadata(config, target.format, target.file.stem().string(), target.tokenizer);
    std::filesystem::create_directories(target.file.parent_path());
    GgufWriter writer(target.file, metadata, tensors);
    for (size_t i = 0; i < places.size(); ++i) {
        const std::vector<float> ordered = ordered_for_gguf(places[i], values_of(parameters.parameters[i], weights));
        writer.write(stored_bytes(ordered, tensors[i].format, tensors[i].name));
    }
    if (has_factors) {
        writer.write(stored_bytes(rope_factors(config.rope, config.head_size), FloatFormat::fp32, kRopeFactorsName));
    }
    return writer.finish();
}

}  // namespace accrue
