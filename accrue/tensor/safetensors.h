#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "accrue/base/file.h"
#include "accrue/tensor/byte_source.h"

namespace accrue {

// One tensor of a safetensors file: where its bytes lie.
struct StoredTensor {
    std::string dtype;  // as in the file: "F32", "BF16", "F16", "I64", ...
    std::vector<int64_t> shape;
    int64_t offset = 0;  // from the beginning of the file
    int64_t bytes = 0;

    [[nodiscard]] int64_t elements() const;
};

// A safetensors file opened for reading. The header is checked whole: lengths, overlaps, unknown types, truncation;
// each fault is an error that names the file and the tensor.
class SafetensorsFile {
public:
    explicit SafetensorsFile(const std::filesystem::path& path);

    [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
    [[nodiscard]] const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
    [[nodiscard]] bool has(const std::string& name) const { return tensors_.contains(name); }
    // The tensor of that name; an error lists the names there are.
    [[nodiscard]] const StoredTensor& at(const std::string& name) const;
    // The stored bytes of a tensor, unchanged.
    void read_bytes(const StoredTensor& tensor, std::span<std::byte> into) const;
    // Some of them, from a byte on.
    void read_bytes(const StoredTensor& tensor, int64_t first, std::span<std::byte> into) const;
    // F32, BF16, F16 or F64 converted to float.
    void read_floats(const std::string& name, std::span<float> into) const;
    // An error if a tensor has another number of elements.
    void require_elements(const std::string& name, int64_t elements) const;
    // Some of them, from an element on.
    void read_floats(const std::string& name, int64_t first, std::span<float> into) const;
    // I64, I32, I16 or U8 converted to int64.
    [[nodiscard]] std::vector<int64_t> read_integers(const std::string& name) const;

private:
    InputFile file_;
    std::map<std::string, StoredTensor> tensors_;
};

// A tensor to be written.
struct TensorToStore {
    std::string name;
    std::string dtype;
    std::vector<int64_t> shape;
    ByteSource bytes;
};

// Writes a safetensors file (metadata {"format":"pt"}), tensors sorted by name so that equal contents give equal bytes,
// and syncs it. Returns the checksum (base/hash.h) of the whole file. `wrote` is called with the bytes of each piece.
std::string write_safetensors(const std::filesystem::path& path, std::vector<TensorToStore> tensors,
                              const std::function<void(int64_t bytes)>& wrote = nullptr);

}  // namespace accrue
