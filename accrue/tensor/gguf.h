#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "accrue/base/file.h"
#include "accrue/tensor/float_format.h"

namespace accrue {

// GGUF, version 3: the file that llama.cpp and its kin read. Metadata first, then where each tensor lies, then tensors.

// A list of metadata values. The alternatives stand in the order of the format's numbers for types, without the list.
using GgufArray =
    std::variant<std::vector<uint8_t>, std::vector<int8_t>, std::vector<uint16_t>, std::vector<int16_t>,
                 std::vector<uint32_t>, std::vector<int32_t>, std::vector<float>, std::vector<bool>,
                 std::vector<std::string>, std::vector<uint64_t>, std::vector<int64_t>, std::vector<double>>;
// A metadata value. Its index is the format's number for its type.
using GgufValue = std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool, std::string,
                               GgufArray, uint64_t, int64_t, double>;
// Keys and values in the order of the file.
using GgufMetadata = std::vector<std::pair<std::string, GgufValue>>;

// How many values a list has.
[[nodiscard]] int64_t length_of(const GgufArray& array);
// The name of a value's type: "u32", "text", "list of f32".
[[nodiscard]] std::string type_name_of(const GgufValue& value);

// One tensor of a GGUF file: what it is and where its bytes lie.
struct GgufTensor {
    std::string name;
    std::string type;            // ggml's name: "F32", "BF16", "Q4_K", ...
    std::vector<int64_t> shape;  // outermost first, as everywhere else in accrue; the file has it reversed
    int64_t offset = 0;          // from the beginning of the file
    int64_t bytes = 0;

    [[nodiscard]] int64_t elements() const;
};

// A GGUF file opened for reading. Everything before the tensors' bytes is read and checked against the file: counts,
// lengths, types, alignment, places; each fault is an error that names the file and the key or tensor.
class GgufFile {
public:
    explicit GgufFile(const std::filesystem::path& path);

    [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
    [[nodiscard]] const GgufMetadata& metadata() const { return metadata_; }
    // The value of a key; null if there is none.
    [[nodiscard]] const GgufValue* find(std::string_view key) const;
    [[nodiscard]] int64_t alignment() const { return alignment_; }
    // In the order of the file, which is that of their places.
    [[nodiscard]] const std::vector<GgufTensor>& tensors() const { return tensors_; }
    // The tensor of that name; null if there is none.
    [[nodiscard]] const GgufTensor* find_tensor(const std::string& name) const;
    // F32, BF16 or F16 converted to float; an error names the tensor and another type.
    void read_floats(const GgufTensor& tensor, std::span<float> into) const;

private:
    InputFile file_;
    GgufMetadata metadata_;
    std::map<std::string, size_t, std::less<>> keys_;
    std::vector<GgufTensor> tensors_;
    std::map<std::string, size_t> names_;
    int64_t alignment_ = 0;
};

// The numbers of a format in ggml's enumeration of tensor types and in llama.cpp's of what most tensors of a file are.
struct GgufNumbers {
    uint32_t tensor = 0;
    uint32_t file = 0;
};
[[nodiscard]] GgufNumbers gguf_numbers_of(FloatFormat format);

// A tensor to be written.
struct GgufTensorToStore {
    std::string name;
    FloatFormat format = FloatFormat::fp32;
    std::vector<int64_t> shape;  // outermost first
};

// Writes a GGUF file: the header at once, then the tensors one by one, so that only one is needed in its final form.
// The file appears whole: it is written aside and renamed by finish(); without that nothing stays.
class GgufWriter {
public:
    GgufWriter(std::filesystem::path path, const GgufMetadata& metadata, std::vector<GgufTensorToStore> tensors);
    ~GgufWriter();
    GgufWriter(const GgufWriter&) = delete;
    GgufWriter& operator=(const GgufWriter&) = delete;

    // The bytes of the next tensor, in the order given; an error if their number is not that of its shape and format.
    void write(std::span<const std::byte> bytes);
    // Syncs and renames; returns the size of the file. An error if a tensor is missing.
    int64_t finish();

private:
    void put(std::span<const std::byte> bytes);
    void pad();

    std::filesystem::path path_;
    std::filesystem::path partial_;
    std::vector<GgufTensorToStore> tensors_;
    std::unique_ptr<OutputFile> file_;
    size_t next_ = 0;
    int64_t written_ = 0;
};

}  // namespace accrue
