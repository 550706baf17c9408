#include "accrue/model/model_folder.h"

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/replace_folder.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// Buffers that Hugging Face files carry and no computation here reads.
bool is_ignorable(const std::string& name) {
    return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with("rotary_emb.inv_freq");
}

std::string shape_text(const std::vector<int64_t>& shape) {
    std::string text = "[";
    for (const int64_t extent : shape) {
        text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
    }
    return text + "]";
}

std::vector<fs::path> weight_files(const fs::path& folder) {
    const fs::path whole = folder / "model.safetensors";
    if (fs::exists(whole)) {
        return {whole};
    }
    const fs::path index = folder / "model.safetensors.index.json";
    if (!fs::exists(index)) {
        throw Error(cat(folder.string(), " has neither model.safetensors nor model.safetensors.index.json. ",
                        "Point model.from at a Hugging Face model folder with safetensors weights."));
    }
    const auto json = nlohmann::json::parse(read_text(index), nullptr, false);
    if (json.is_discarded() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
        throw Error(cat(index.string(), " is not an index of shards: it has no \"weight_map\"."));
    }
    std::set<fs::path> files;
    for (const auto& [tensor, file] : json["weight_map"].items()) {
        if (!file.is_string()) {
            throw Error(cat(index.string(), ": weight_map.", tensor, " is not a file name."));
        }
        files.insert(folder / file.get<std::string>());
    }
    return {files.begin(), files.end()};
}

// GPT-2 files come with and without the "transformer." in front.
std::optional<std::string> stored_name(const std::map<std::string, const SafetensorsFile*>& stored,
                                       const std::string& name) {
    const size_t dot = name.find('.');
    for (const std::string& candidate : {name, name.substr(dot + 1)}) {
        if (stored.contains(candidate)) {
            return candidate;
        }
    }
    return std::nullopt;
}

void check_finite(const fs::path& file, const std::string& name, std::span<const float> values) {
    for (size_t i = 0; i < values.size(); ++i) {
        if (!std::isfinite(values[i])) {
            throw Error(cat(file.string(), ": tensor ", name, " holds ", values[i], " at element ", i,
                            ". Such weights cannot be trained; take an earlier copy of the model."));
        }
    }
}

void load_tensor(const SafetensorsFile& file, const std::string& stored, const Parameter& parameter,
                 std::span<float> into) {
    const StoredTensor& tensor = file.at(stored);
    if (tensor.shape != parameter.shape) {
        throw Error(cat(file.path().string(), ": tensor ", stored, " has shape ", shape_text(tensor.shape),
                        ", but config.json asks for ", shape_text(parameter.shape), "."));
    }
    file.read_floats(stored, into);
    check_finite(file.path(), stored, into);
}

}  // namespace

void load_model_weights(const fs::path& folder, const ParameterList& parameters, std::span<float> weights) {
    std::vector<std::unique_ptr<SafetensorsFile>> files;
    std::map<std::string, const SafetensorsFile*> stored;
    for (const fs::path& path : weight_files(folder)) {
        files.push_back(std::make_unique<SafetensorsFile>(path));
        for (const auto& [name, tensor] : files.back()->tensors()) {
            stored[name] = files.back().get();
        }
    }
    bool has_head = false;
    for (const Parameter& parameter : parameters.parameters) {
        const auto name = stored_name(stored, parameter.name);
        if (!name) {
            throw Error(cat(files.front()->path().string(), ": tensor ", parameter.name,
                            " is missing. The weights do not belong to this config.json, or the file is incomplete."));
        }
        has_head = has_head || parameter.name == "lm_head.weight";
        load_tensor(*stored[*name], *name, parameter,
                    weights.subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.elements())));
        stored.erase(*name);
    }
    for (const auto& [name, file] : stored) {
        // A tied model may store its head a second time.
        if (is_ignorable(name) || (!has_head && name == "lm_head.weight")) {
            continue;
        }
        throw Error(cat(file->path().string(), ": tensor ", name,
                        " is unknown to the model that config.json describes. ",
                        "Training without it would compute something else."));
    }
}

std::vector<TensorToStore> named_tensors(const ParameterList& parameters, std::span<const float> flat) {
    std::vector<TensorToStore> tensors;
    for (const Parameter& parameter : parameters.parameters) {
        const auto values =
            flat.subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.elements()));
        tensors.push_back(
            {.name = parameter.name, .dtype = "F32", .shape = parameter.shape, .bytes = std::as_bytes(values)});
    }
    return tensors;
}

void write_model_folder(const fs::path& folder, const ModelConfig& config, const ParameterList& parameters,
                        std::span<const float> weights, const std::function<void(const fs::path& folder)>& add_files) {
    replace_folder(folder, [&](const fs::path& aside) {
        write_text(aside / "config.json", config.source_json);
        write_safetensors(aside / "model.safetensors", named_tensors(parameters, weights));
        if (add_files) {
            add_files(aside);
        }
    });
}

}  // namespace accrue
