#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/temporary_folder.h"
#include "accrue/base/test_places.h"
#include "accrue/model/decoder.h"
#include "accrue/model/decoder/gguf_metadata.h"
#include "accrue/model/decoder/gguf_model.h"
#include "accrue/model/decoder/spec.h"
#include "accrue/model/export.h"
#include "accrue/model/model_folder.h"

namespace accrue::testing {

namespace fs = std::filesystem;

// A model in memory.
struct Loaded {
    ModelConfig config;
    std::vector<float> weights;
};

inline Loaded load_folder(const fs::path& folder) {
    Loaded loaded{.config = parse_model_config(read_text(folder / "config.json"), folder.string(), 0), .weights = {}};
    const ParameterList parameters = decoder_parameters(loaded.config).list;
    loaded.weights.resize(static_cast<size_t>(parameters.flat_elements));
    load_model_weights(folder, parameters, put_into(loaded.weights));
    return loaded;
}

inline fs::path golden_folder(const std::string& name) {
    return source_folder() / "tests" / "golden" / name;
}

// A tensor of a file as numbers.
inline std::vector<float> tensor_values(const GgufFile& file, const std::string& name) {
    const GgufTensor& tensor = *file.find_tensor(name);
    std::vector<float> values(static_cast<size_t>(tensor.elements()));
    file.read_floats(tensor, values);
    return values;
}

// A folder of its own for each test, and files in it.
class ExportTest : public ::testing::Test {
protected:
    [[nodiscard]] fs::path gguf_of(const Loaded& model, FloatFormat format = FloatFormat::fp32) const {
        const fs::path file = folder_ / "model.gguf";
        fs::remove(file);
        export_model(*decoder_spec(model.config), model.weights,
                     {.kind = ExportRequest::Kind::gguf, .format = format, .output = file});
        return file;
    }
    [[nodiscard]] fs::path gguf_of(const std::string& golden) const {
        return gguf_of(load_folder(golden_folder(golden)));
    }

    // A GGUF file written anew with other metadata and tensors.
    struct Contents {
        GgufMetadata metadata;
        std::vector<GgufTensorToStore> tensors;
        std::vector<std::vector<float>> values;

        void set(const std::string& key, const GgufValue& value) {
            std::erase_if(metadata, [&](const auto& entry) { return entry.first == key; });
            metadata.emplace_back(key, value);
        }
        void erase(const std::string& key) {
            std::erase_if(metadata, [&](const auto& entry) { return entry.first.starts_with(key); });
        }
        size_t tensor(const std::string& name) const {
            size_t index = 0;
            while (tensors.at(index).name != name) {
                ++index;
            }
            return index;
        }
    };
    [[nodiscard]] fs::path edited(const fs::path& path, const std::function<void(Contents&)>& edit) const {
        const GgufFile file(path);
        Contents contents{.metadata = file.metadata(), .tensors = {}, .values = {}};
        for (const GgufTensor& tensor : file.tensors()) {
            contents.tensors.push_back({.name = tensor.name, .shape = tensor.shape});
            contents.values.push_back(tensor_values(file, tensor.name));
        }
        edit(contents);
        const fs::path result = folder_ / "edited.gguf";
        GgufWriter writer(result, contents.metadata, contents.tensors);
        for (const auto& values : contents.values) {
            writer.write(std::as_bytes(std::span(values)));
        }
        (void)writer.finish();
        return result;
    }

    TemporaryFolder folder_;
};

}  // namespace accrue::testing
