#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/model/model_spec.h"
#include "accrue/model/shape.h"

namespace accrue {

// A kind of model: what it is called and how its models are described. Everything else they say themselves (ModelSpec).
struct ModelFamily {
    using Parse = std::function<std::shared_ptr<const ModelSpec>(std::string_view json, const std::string& where,
                                                                 int64_t sequence_length)>;
    using Shaped = std::function<std::shared_ptr<const ModelSpec>(const std::string& preset, const ModelShape& shape,
                                                                  const Words& words)>;

    std::vector<std::string> names;         // a config.json says one of them as its model_type
    std::vector<std::string> presets = {};  // models of known shape
    // The model that a config.json with one of these names describes. A key that changes the computation and is not
    // supported is an error that names `where`, key and value. `sequence_length`: what the run will use, to be judged
    // too; 0 = do not judge.
    Parse parse;
    // A preset changed by a shape or, with an empty preset, what is usual for shape.family with these sizes. None = only a
    // config.json describes such models.
    Shaped shaped = nullptr;
};

// The families that a run may take its model from.
class ModelFamilies {
public:
    explicit ModelFamilies(std::vector<ModelFamily> families) : families_(std::move(families)) {}

    // One more, whose names and presets no other has.
    void add(ModelFamily family) { families_.push_back(std::move(family)); }

    // The model of a folder with a config.json.
    [[nodiscard]] std::shared_ptr<const ModelSpec> read(const std::filesystem::path& folder,
                                                        int64_t sequence_length) const;
    // The same from the text of a config.json; `where` names it in errors.
    [[nodiscard]] std::shared_ptr<const ModelSpec> parse(std::string_view json, const std::string& where,
                                                         int64_t sequence_length) const;
    // An error lists the presets.
    [[nodiscard]] std::shared_ptr<const ModelSpec> preset(const std::string& name) const;
    // As ModelFamily::shaped, of the family that has the preset or the shape's name.
    [[nodiscard]] std::shared_ptr<const ModelSpec> shaped(const std::string& preset, const ModelShape& shape,
                                                          const Words& words) const;

    [[nodiscard]] std::vector<std::string> preset_names() const;
    // Of families that a shape can name.
    [[nodiscard]] std::vector<std::string> shape_names() const;

private:
    std::vector<ModelFamily> families_;
};

// Every family that accrue has. To add one is a line here, and a file that defines it.
[[nodiscard]] ModelFamilies known_families();

}  // namespace accrue
