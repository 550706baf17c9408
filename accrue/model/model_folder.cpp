#include "accrue/model/model_folder.h"

#include <algorithm>
#include <array>
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

// A file that somebody meant to hold a model's weights, in a form or state that is not read.
bool looks_like_weights(const std::string& name) {
    const auto begins = [&name](const char* text) { return name.starts_with(text); };
    const auto holds = [&name](const char* text) { return name.find(text) != std::string::npos; };
    constexpr std::array kBeginnings = {"model",        "pytorch_model", "adapter_model",
                                        "consolidated", "tf_model",      "flax_model"};
    constexpr std::array kForms = {".safetensors", ".bin", ".pth", ".pt", ".h5", ".msgpack", ".ckpt"};
    return holds(".gguf") || (std::any_of(kBeginnings.begin(), kBeginnings.end(), begins) &&
                              std::any_of(kForms.begin(), kForms.end(), holds));
}

void refuse_other_weights(const fs::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
        names.insert(entry.path().filename().string());
    }
    const auto found = std::find_if(names.begin(), names.end(), looks_like_weights);
    if (found != names.end()) {
        throw Error(
            cat(folder.string(), " has ", *found, ", but neither a readable model.safetensors nor ",
                "model.safetensors.index.json. Only safetensors weights are read: fetch or convert them, or set ",
                "model.weights to \"fresh\" to train this shape from fresh ones."));
    }
}

std::vector<fs::path> shards_of(const fs::path& index) {
    const auto json = nlohmann::json::parse(read_text(index), nullptr, false);
    if (json.is_discarded() || !json.contains("weight_map") || !json["weight_map"].is_object() ||
        json["weight_map"].empty()) {
        throw Error(cat(index.string(), " is not an index of shards: it has no \"weight_map\"."));
    }
    std::set<fs::path> files;
    for (const auto& [tensor, file] : json["weight_map"].items()) {
        if (!file.is_string()) {
            throw Error(cat(index.string(), ": weight_map.", tensor, " is not a file name."));
        }
        files.insert(index.parent_path() / file.get<std::string>());
    }
    for (const fs::path& file : files) {
        if (!fs::exists(file)) {
            throw Error(cat(index.string(), " names ", file.filename().string(),
                            ", which is not there. The model was not fetched whole: fetch the missing file."));
        }
    }
    return {files.begin(), files.end()};
}

// Empty = the folder has no weights, and none were meant to be there.
std::vector<fs::path> weight_files(const fs::path& folder) {
    const fs::path whole = folder / "model.safetensors";
    if (fs::exists(whole)) {
        return {whole};
    }
    const fs::path index = folder / "model.safetensors.index.json";
    if (fs::exists(index)) {
        return shards_of(index);
    }
    refuse_other_weights(folder);
    return {};
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

void check_finite(const fs::path& file, const std::string& name, int64_t first, std::span<const float> values) {
    for (size_t i = 0; i < values.size(); ++i) {
        if (!std::isfinite(values[i])) {
            throw Error(cat(file.string(), ": tensor ", name, " holds ", values[i], " at element ",
                            first + static_cast<int64_t>(i),
                            ". Such weights cannot be trained; take an earlier copy of the model."));
        }
    }
}

void check_shape(const SafetensorsFile& file, const std::string& stored, const Parameter& parameter) {
    const StoredTensor& tensor = file.at(stored);
    if (tensor.shape != parameter.shape) {
        throw Error(cat(file.path().string(), ": tensor ", stored, " has shape ", shape_text(tensor.shape),
                        ", but config.json asks for ", shape_text(parameter.shape), "."));
    }
}

// What becomes a parameter: a tensor of some file, of the right shape.
struct FoundTensor {
    const SafetensorsFile* file = nullptr;
    std::string name;
};

}  // namespace

bool has_model_weights(const fs::path& folder) {
    return !weight_files(folder).empty();
}

void load_model_weights(const fs::path& folder, const ParameterList& parameters, const PutWeights& put,
                        const LongWork& work) {
    const std::vector<fs::path> paths = weight_files(folder);
    if (paths.empty()) {
        throw Error(cat(folder.string(),
                        " has no weights: neither model.safetensors nor model.safetensors.index.json. ",
                        "Its config.json is a shape that accrue train can start from with fresh weights; here a model ",
                        "with weights is needed."));
    }
    std::vector<std::unique_ptr<SafetensorsFile>> files;
    std::map<std::string, const SafetensorsFile*> stored;
    for (const fs::path& path : paths) {
        files.push_back(std::make_unique<SafetensorsFile>(path));
        for (const auto& [name, tensor] : files.back()->tensors()) {
            stored[name] = files.back().get();
        }
    }
    bool has_head = false;
    std::vector<FoundTensor> found;
    for (const Parameter& parameter : parameters.parameters) {
        const auto name = stored_name(stored, parameter.name);
        if (!name) {
            throw Error(cat(files.front()->path().string(), ": tensor ", parameter.name,
                            " is missing. The weights do not belong to this config.json, or the file is incomplete."));
        }
        has_head = has_head || parameter.name == "lm_head.weight";
        check_shape(*stored[*name], *name, parameter);
        found.push_back({.file = stored[*name], .name = *name});
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
    WorkCount count(work, parameters.elements() * static_cast<int64_t>(sizeof(float)));
    work.run(parameters.count(), [&](int64_t item) {
        const auto& [file, name] = found[static_cast<size_t>(item)];
        const Parameter& parameter = parameters[item];
        std::array<float, kPutElements> values;
        for (int64_t first = 0; first < parameter.elements(); first += kPutElements) {
            const auto some =
                std::span(values).first(static_cast<size_t>(std::min(kPutElements, parameter.elements() - first)));
            file->read_floats(name, first, some);
            check_finite(file->path(), name, first, some);
            put(parameter.offset + first, some);
            count.add(static_cast<int64_t>(some.size_bytes()));
        }
    });
}

std::span<const float> values_of(const Parameter& parameter, std::span<const float> flat) {
    return flat.subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.elements()));
}

std::vector<TensorToStore> named_tensors(const ParameterList& parameters, const ByteSource& weights) {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(float));
    std::vector<TensorToStore> tensors;
    for (const Parameter& parameter : parameters.parameters) {
        tensors.push_back({.name = parameter.name,
                           .dtype = "F32",
                           .shape = parameter.shape,
                           .bytes = weights.part(parameter.offset * kBytes, parameter.elements() * kBytes)});
    }
    return tensors;
}

void write_model_folder(const fs::path& folder, const ModelSpec& model, const ByteSource& weights,
                        const std::function<void(int64_t)>& wrote,
                        const std::function<void(const fs::path& folder)>& add_files) {
    replace_folder(folder, [&](const fs::path& aside) {
        write_text(aside / "config.json", model.config_json());
        write_safetensors(aside / "model.safetensors", named_tensors(model.parameters(), weights), wrote);
        if (add_files) {
            add_files(aside);
        }
    });
}

}  // namespace accrue
