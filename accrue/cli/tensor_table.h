#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace accrue {

// One line of a table of tensors.
struct TensorLine {
    std::string name;
    std::string type;
    std::vector<int64_t> shape;
    int64_t elements = 0;
    int64_t bytes = 0;
    std::string smallest = "-";  // of its values; "-" where they cannot be compared
    std::string largest = "-";
};

// The tensors of a safetensors or GGUF file, each read whole for its smallest and largest value.
[[nodiscard]] std::vector<TensorLine> lines_of_safetensors(const std::filesystem::path& file);
[[nodiscard]] std::vector<TensorLine> lines_of_gguf(const std::filesystem::path& file);

// A readable table with totals below.
[[nodiscard]] std::string tensor_table(std::span<const TensorLine> lines);

}  // namespace accrue
