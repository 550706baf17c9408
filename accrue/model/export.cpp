#include "accrue/model/export.h"

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/replace_folder.h"
#include "accrue/model/gguf_layout.h"
#include "accrue/model/parameters.h"
#include "accrue/tensor/safetensors.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

std::span<const float> values_of(const Parameter& parameter, std::span<const float> weights) {
    return weights.subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.elements()));
}

// The config.json of the model with the number format of the new file in it, under the name it has there.
std::string config_json(const ModelConfig& config, FloatFormat format) {
    auto json = nlohmann::ordered_json::parse(config.source_json);
    const char* const name =
        format == FloatFormat::fp32 ? "float32" : (format == FloatFormat::bf16 ? "bfloat16" : "float16");
    const bool has_both = json.contains("dtype") && json.contains("torch_dtype");
    json[json.contains("dtype") ? "dtype" : "torch_dtype"] = name;
    if (has_both) {
        json["torch_dtype"] = name;
    }
    return json.dump(2) + "\n";
}

void write_weights(const fs::path& file, const ParameterList& parameters, std::span<const float> weights,
                   FloatFormat format) {
    std::vector<std::vector<std::byte>> bytes;
    std::vector<TensorToStore> tensors;
    for (const Parameter& parameter : parameters.parameters) {
        bytes.push_back(stored_bytes(values_of(parameter, weights), format, parameter.name));
        tensors.push_back({.name = parameter.name,
                           .dtype = std::string(stored_name_of(format)),
                           .shape = parameter.shape,
                           .bytes = std::span<const std::byte>(bytes.back())});
    }
    write_safetensors(file, std::move(tensors));
}

int64_t bytes_in(const fs::path& folder) {
    int64_t total = 0;
    for (const auto& entry : fs::directory_iterator(folder)) {
        total += static_cast<int64_t>(entry.file_size());
    }
    return total;
}

int64_t write_hf(const fs::path& output, const ModelConfig& config, const ParameterList& parameters,
                 std::span<const float> weights, const ExportRequest& request) {
    replace_folder(output, [&](const fs::path& aside) {
        write_text(aside / "config.json", config_json(config, request.format));
        write_weights(aside / "model.safetensors", parameters, weights, request.format);
        for (const fs::path& file : request.files) {
            write_text(aside / file.filename(), read_text(file));
        }
    });
    return bytes_in(output);
}

int64_t write_gguf(const fs::path& output, const ModelConfig& config, const ParameterList& parameters,
                   std::span<const float> weights, const ExportRequest& request) {
    std::vector<GgufPlace> places;
    std::vector<GgufTensorToStore> tensors;
    for (const Parameter& parameter : parameters.parameters) {
        places.push_back(gguf_place(config, parameter));
        tensors.push_back({.name = places.back().name,
                           .format = places.back().always_fp32 ? FloatFormat::fp32 : request.format,
                           .shape = places.back().shape});
    }
    const bool has_factors = config.rope.kind == RopeConfig::Kind::llama3;
    if (has_factors) {
        tensors.push_back({.name = kRopeFactorsName, .shape = {config.head_size / 2}});
    }
    const GgufMetadata metadata = gguf_metadata(config, request.format, output.stem().string(), request.tokenizer);
    fs::create_directories(output.parent_path());
    GgufWriter writer(output, metadata, tensors);
    for (size_t i = 0; i < places.size(); ++i) {
        const std::vector<float> ordered = ordered_for_gguf(places[i], values_of(parameters.parameters[i], weights));
        writer.write(stored_bytes(ordered, tensors[i].format, tensors[i].name));
    }
    if (has_factors) {
        writer.write(stored_bytes(rope_factors(config.rope, config.head_size), FloatFormat::fp32, kRopeFactorsName));
    }
    return writer.finish();
}

}  // namespace

ExportReport export_model(const ModelConfig& config, std::span<const float> weights, const ExportRequest& request) {
    const ParameterList parameters = decoder_parameters(config).list;
    if (static_cast<int64_t>(weights.size()) != parameters.flat_elements) {
        throw Error(cat("the model has ", parameters.flat_elements, " places for weights, but ", weights.size(),
                        " were given to be exported."));
    }
    // A trailing slash would make an empty file name.
    fs::path output = fs::absolute(request.output).lexically_normal();
    output = output.has_filename() ? output : output.parent_path();
    if (request.overwrite == Overwrite::no && fs::exists(fs::symlink_status(output))) {
        throw Error(cat(request.output.string(), " exists already. Choose another place, or ask to replace it."));
    }
    const auto write = request.kind == ExportRequest::Kind::hf ? write_hf : write_gguf;
    try {
        const int64_t bytes = write(output, config, parameters, weights, request);
        return {.tensors = parameters.count(), .parameters = parameters.elements(), .bytes = bytes};
    } catch (const fs::filesystem_error& fault) {
        throw Error(cat("cannot write ", request.output.string(), ": ", fault.code().message(), "."));
    }
}

}  // namespace accrue
