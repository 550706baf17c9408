#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "accrue/tensor/safetensors.h"

namespace accrue {

// The rows of a safetensors file with input_ids [samples, tokens] and perhaps labels of the same shape, one at a time.
class TokenRows {
public:
    // What a row holds: as many labels as ids, -1 where the file has -100; without labels in the file, the ids again.
    struct Row {
        std::vector<int32_t> ids;
        std::vector<int32_t> labels;
    };

    // `name` stands in errors. Shapes and dtypes are checked here, numbers when they are read.
    TokenRows(const std::filesystem::path& file, std::string name);

    [[nodiscard]] int64_t size() const { return file_.at("input_ids").shape[0]; }
    [[nodiscard]] Row row(int64_t index) const;
    [[nodiscard]] const std::string& name() const { return name_; }

private:
    enum class Ignored { refused, allowed };
    [[nodiscard]] std::vector<int32_t> read(const std::string& tensor, int64_t index, Ignored ignored) const;

    std::string name_;
    SafetensorsFile file_;
};

}  // namespace accrue
