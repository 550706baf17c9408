#include "accrue/model/export.h"

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/replace_folder.h"
#include "accrue/model/model_folder.h"
#include "accrue/tensor/safetensors.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// The config.json of the model with the number format of the new file in it, under the name it has there.
std::string config_json(const ModelSpec& model, FloatFormat format) {
    auto json = nlohmann::ordered_json::parse(model.config_json());
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

int64_t write_hf(const fs::path& output, const ModelSpec& model, std::span<const float> weights,
                 const ExportRequest& request) {
    replace_folder(output, [&](const fs::path& aside) {
        write_text(aside / "config.json", config_json(model, request.format));
        write_weights(aside / "model.safetensors", model.parameters(), weights, request.format);
        for (const fs::path& file : request.files) {
            write_text(aside / file.filename(), read_text(file));
        }
    });
    return bytes_in(output);
}

}  // namespace

ExportReport export_model(const ModelSpec& model, std::span<const float> weights, const ExportRequest& request) {
    const ParameterList& parameters = model.parameters();
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
    try {
        const int64_t bytes =
            request.kind == ExportRequest::Kind::hf
                ? write_hf(output, model, weights, request)
                : model.write_gguf({.file = output, .format = request.format, .tokenizer = request.tokenizer}, weights);
        return {.tensors = parameters.count(), .parameters = parameters.elements(), .bytes = bytes};
    } catch (const fs::filesystem_error& fault) {
        throw Error(cat("cannot write ", request.output.string(), ": ", fault.code().message(), "."));
    }
}

}  // namespace accrue
