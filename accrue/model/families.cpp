#include "accrue/model/families.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/model/config_fields.h"
#include "accrue/model/decoder/spec.h"

namespace accrue {
namespace {

bool has(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) {
        text += cat(text.empty() ? "" : ", ", word);
    }
    return text;
}

}  // namespace

ModelFamilies known_families() {
    return ModelFamilies({decoder_family()});
}

std::shared_ptr<const ModelSpec> ModelFamilies::read(const std::filesystem::path& folder,
                                                     int64_t sequence_length) const {
    const std::filesystem::path file = folder / "config.json";
    return parse(read_text(file), file.string(), sequence_length);
}

std::shared_ptr<const ModelSpec> ModelFamilies::parse(std::string_view json, const std::string& where,
                                                      int64_t sequence_length) const {
    const ConfigFields fields = ConfigFields::parse(json, where);
    fields.require_named("model_type", "it names the model's family");
    const std::string name = fields.text("model_type", "");
    std::vector<std::string> known;
    for (const ModelFamily& family : families_) {
        if (has(family.names, name)) {
            return family.parse(json, where, sequence_length);
        }
        for (const std::string& other : family.names) {
            known.push_back(cat("\"", other, "\""));
        }
    }
    fields.refuse("model_type", cat("the known families are ", joined(known)));
}

std::shared_ptr<const ModelSpec> ModelFamilies::preset(const std::string& name) const {
    return shaped(name, {}, {});
}

std::shared_ptr<const ModelSpec> ModelFamilies::shaped(const std::string& preset, const ModelShape& shape,
                                                       const Words& words) const {
    for (const ModelFamily& family : families_) {
        const bool is_it = preset.empty() ? has(family.names, shape.family) : has(family.presets, preset);
        if (is_it && family.shaped) {
            return family.shaped(preset, shape, words);
        }
    }
    if (!preset.empty()) {
        throw Error(cat("there is no preset \"", preset, "\"; the presets are ", joined(preset_names()), "."));
    }
    throw Error(cat("model.family is \"", shape.family, "\", which is no family that a shape can have."));
}

std::vector<std::string> ModelFamilies::preset_names() const {
    std::vector<std::string> names;
    for (const ModelFamily& family : families_) {
        names.insert(names.end(), family.presets.begin(), family.presets.end());
    }
    return names;
}

std::vector<std::string> ModelFamilies::shape_names() const {
    std::vector<std::string> names;
    for (const ModelFamily& family : families_) {
        if (family.shaped) {
            names.insert(names.end(), family.names.begin(), family.names.end());
        }
    }
    return names;
}

}  // namespace accrue
