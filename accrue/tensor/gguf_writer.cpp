#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <set>
#include <type_traits>

#include "accrue/base/error.h"
#include "accrue/base/output_path.h"
#include "accrue/tensor/gguf.h"
#include "accrue/tensor/gguf_format.h"

namespace accrue {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF files are little-endian and written as they are");

// Puts the fields of a header one behind another.
class HeaderText {
public:
    template <class T>
        requires std::is_arithmetic_v<T>
    void put(T value) {
        const auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
        text_.append(bytes.data(), bytes.size());
    }
    void put(const std::string& value) {
        put(static_cast<uint64_t>(value.size()));
        text_ += value;
    }
    template <class T>
    void put(const std::vector<T>& values) {
        for (const T& value : values) {
            put(value);
        }
    }
    void put(const GgufArray& array) {
        put(element_type_of(array.index()));
        put(static_cast<uint64_t>(length_of(array)));
        std::visit([&](const auto& values) { put(values); }, array);
    }
    void put_raw(std::string_view value) { text_ += value; }

    [[nodiscard]] const std::string& text() const { return text_; }

private:
    std::string text_;
};

int64_t bytes_of(const GgufTensorToStore& tensor) {
    int64_t product = bytes_of(tensor.format);
    for (const int64_t extent : tensor.shape) {
        if (extent < 1 || __builtin_mul_overflow(product, extent, &product)) {
            throw Error(cat("tensor ", tensor.name, " cannot be written: its shape has the extent ", extent, "."));
        }
    }
    return product;
}

void put_metadata(HeaderText& header, const GgufMetadata& metadata, const std::string& file) {
    std::set<std::string> known;
    for (const auto& [key, value] : metadata) {
        if (key.empty() || key.size() > kGgufLongestKey || !known.insert(key).second) {
            throw Error(cat(file, ": key \"", key.substr(0, 100), "\" cannot be written: it is ",
                            known.contains(key) ? "there twice." : "empty or too long."));
        }
        if (key == kGgufAlignmentKey && value != GgufValue(static_cast<uint32_t>(kGgufAlignment))) {
            throw Error(cat(file, ": ", key, " cannot be written: tensors are aligned to ", kGgufAlignment, "."));
        }
        header.put(key);
        header.put(static_cast<uint32_t>(value.index()));
        std::visit([&](const auto& given) { header.put(given); }, value);
    }
}

void put_tensors(HeaderText& header, const std::vector<GgufTensorToStore>& tensors, const std::string& file) {
    std::set<std::string> known;
    int64_t place = 0;
    for (const GgufTensorToStore& tensor : tensors) {
        if (tensor.name.empty() || tensor.name.size() > kGgufLongestName || !known.insert(tensor.name).second) {
            throw Error(cat(file, ": tensor \"", tensor.name, "\" cannot be written: its name is ",
                            known.contains(tensor.name) ? "there twice." : "empty or too long."));
        }
        if (tensor.shape.empty() || tensor.shape.size() > kGgufMostDimensions) {
            throw Error(cat(file, ": tensor ", tensor.name, " cannot be written: it has ", tensor.shape.size(),
                            " dimensions, and 1 to ", kGgufMostDimensions, " are allowed."));
        }
        header.put(tensor.name);
        header.put(static_cast<uint32_t>(tensor.shape.size()));
        for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent) {
            header.put(static_cast<uint64_t>(*extent));
        }
        header.put(gguf_numbers_of(tensor.format).tensor);
        header.put(static_cast<uint64_t>(place));
        place = aligned(place + bytes_of(tensor), kGgufAlignment);
    }
}

}  // namespace

GgufNumbers gguf_numbers_of(FloatFormat format) {
    switch (format) {
        case FloatFormat::fp32:
            return {.tensor = 0, .file = 0};
        case FloatFormat::fp16:
            return {.tensor = 1, .file = 1};
        case FloatFormat::bf16:
            return {.tensor = 30, .file = 32};
    }
    return {};
}

GgufWriter::GgufWriter(std::filesystem::path path, const GgufMetadata& metadata, std::vector<GgufTensorToStore> tensors)
    : path_(std::move(path)), partial_(aside_of(path_)), tensors_(std::move(tensors)) {
    HeaderText header;
    header.put_raw(kGgufMagic);
    header.put(kGgufVersion);
    header.put(static_cast<uint64_t>(tensors_.size()));
    header.put(static_cast<uint64_t>(metadata.size()));
    put_metadata(header, metadata, path_.string());
    put_tensors(header, tensors_, path_.string());
    file_ = std::make_unique<OutputFile>(partial_);
    put(std::as_bytes(std::span(header.text())));
    pad();
}

GgufWriter::~GgufWriter() {
    if (file_) {
        file_.reset();
        std::error_code ignored;
        std::filesystem::remove(partial_, ignored);
    }
}

void GgufWriter::put(std::span<const std::byte> bytes) {
    file_->write(bytes);
    written_ += static_cast<int64_t>(bytes.size());
}

void GgufWriter::pad() {
    constexpr std::array<std::byte, static_cast<size_t>(kGgufAlignment)> kZeros{};
    put(std::span(kZeros).first(static_cast<size_t>(aligned(written_, kGgufAlignment) - written_)));
}

void GgufWriter::write(std::span<const std::byte> bytes) {
    if (next_ == tensors_.size()) {
        throw Error(cat(path_.string(), ": all ", tensors_.size(), " tensors are written already."));
    }
    const GgufTensorToStore& tensor = tensors_[next_];
    if (static_cast<int64_t>(bytes.size()) != bytes_of(tensor)) {
        throw Error(cat(path_.string(), ": tensor ", tensor.name, " needs ", bytes_of(tensor), " bytes, but ",
                        bytes.size(), " were given."));
    }
    put(bytes);
    pad();
    ++next_;
}

int64_t GgufWriter::finish() {
    if (next_ != tensors_.size()) {
        throw Error(cat(path_.string(), ": tensor ", tensors_[next_].name, " was announced but not written."));
    }
    file_->close_synced();
    std::error_code fault;
    std::filesystem::rename(partial_, path_, fault);
    if (fault) {
        throw Error(cat("cannot write ", path_.string(), ": ", fault.message()));
    }
    file_.reset();
    sync_folder(path_.has_parent_path() ? path_.parent_path() : ".");
    return written_;
}

}  // namespace accrue
