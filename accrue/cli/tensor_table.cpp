#include "accrue/cli/tensor_table.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "accrue/base/bytes.h"
#include "accrue/tensor/gguf.h"
#include "accrue/tensor/safetensors.h"

namespace accrue {
namespace {

// A number that is none hides every comparison, so it is shown instead of the range.
void set_range(TensorLine& line, std::span<const float> values) {
    if (values.empty()) {
        return;
    }
    const auto broken = std::find_if(values.begin(), values.end(), [](float value) { return std::isnan(value); });
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    line.smallest = broken == values.end() ? fmt::format("{:.4g}", *low) : "nan";
    line.largest = broken == values.end() ? fmt::format("{:.4g}", *high) : "nan";
}

void set_range(TensorLine& line, const std::vector<int64_t>& values) {
    if (!values.empty()) {
        const auto [low, high] = std::minmax_element(values.begin(), values.end());
        line.smallest = std::to_string(*low);
        line.largest = std::to_string(*high);
    }
}

bool is_one_of(const std::string& type, std::initializer_list<const char*> types) {
    return std::any_of(types.begin(), types.end(), [&](const char* known) { return type == known; });
}

std::string shape_text(const std::vector<int64_t>& shape) {
    return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace

std::vector<TensorLine> lines_of_safetensors(const std::filesystem::path& path) {
    const SafetensorsFile file(path);
    std::vector<TensorLine> lines;
    for (const auto& [name, tensor] : file.tensors()) {
        TensorLine line{.name = name,
                        .type = tensor.dtype,
                        .shape = tensor.shape,
                        .elements = tensor.elements(),
                        .bytes = tensor.bytes};
        if (is_one_of(tensor.dtype, {"F32", "BF16", "F16", "F64"})) {
            std::vector<float> values(static_cast<size_t>(tensor.elements()));
            file.read_floats(name, values);
            set_range(line, values);
        } else if (is_one_of(tensor.dtype, {"I64", "I32", "I16", "U8"})) {
            set_range(line, file.read_integers(name));
        }
        lines.push_back(std::move(line));
    }
    return lines;
}

std::vector<TensorLine> lines_of_gguf(const std::filesystem::path& path) {
    const GgufFile file(path);
    std::vector<TensorLine> lines;
    for (const GgufTensor& tensor : file.tensors()) {
        TensorLine line{.name = tensor.name,
                        .type = tensor.type,
                        .shape = tensor.shape,
                        .elements = tensor.elements(),
                        .bytes = tensor.bytes};
        if (is_one_of(tensor.type, {"F32", "BF16", "F16"})) {
            std::vector<float> values(static_cast<size_t>(tensor.elements()));
            file.read_floats(tensor, values);
            set_range(line, values);
        }
        lines.push_back(std::move(line));
    }
    return lines;
}

std::string tensor_table(std::span<const TensorLine> lines) {
    size_t name_width = 6;
    size_t shape_width = 5;
    size_t type_width = 5;
    int64_t elements = 0;
    int64_t bytes = 0;
    std::map<std::string, int64_t> of_type;
    for (const TensorLine& line : lines) {
        name_width = std::max(name_width, line.name.size());
        shape_width = std::max(shape_width, shape_text(line.shape).size());
        type_width = std::max(type_width, line.type.size());
        elements += line.elements;
        bytes += line.bytes;
        of_type[line.type] += line.elements;
    }
    std::string text = fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>11}  {:>11}\n", "tensor", name_width, "dtype",
                                   type_width, "shape", shape_width, "smallest", "largest");
    for (const TensorLine& line : lines) {
        text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>11}  {:>11}\n", line.name, name_width, line.type, type_width,
                            shape_text(line.shape), shape_width, line.smallest, line.largest);
    }
    text += fmt::format("{} tensors, {} numbers", lines.size(), elements);
    for (const auto& [type, count] : of_type) {
        text += fmt::format("{}{} {}", type == of_type.begin()->first ? " (" : ", ", count, type);
    }
    return text + fmt::format("{}, {}\n", of_type.empty() ? "" : ")", format_bytes(bytes));
}

}  // namespace accrue
