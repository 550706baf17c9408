#include "accrue/tensor/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <type_traits>

#include "accrue/base/error.h"
#include "accrue/tensor/gguf_format.h"

namespace accrue {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF files are little-endian and read as they are");

// How ggml stores a type: blocks of so many elements in so many bytes (ggml.h and ggml-common.h).
struct TensorType {
    uint32_t number;
    std::string_view name;
    int64_t block_elements;
    int64_t block_bytes;
};
constexpr std::array<TensorType, 30> kTensorTypes = {{
    {0, "F32", 1, 4},         {1, "F16", 1, 2},        {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},     {8, "Q8_0", 32, 34},      {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},  {13, "Q5_K", 256, 176},   {14, "Q6_K", 256, 210},
    {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74}, {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110}, {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136},
    {24, "I8", 1, 1},         {25, "I16", 1, 2},       {26, "I32", 1, 4},        {27, "I64", 1, 8},
    {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},  {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
}};

constexpr std::array<std::string_view, 13> kValueTypes = {"u8",   "i8",   "u16",  "i16", "u32", "i32", "f32",
                                                          "bool", "text", "list", "u64", "i64", "f64"};

// Reads the fields of a header one behind another, none of them beyond the file's end.
class Cursor {
public:
    explicit Cursor(const InputFile& file) : file_(file) {}

    // What is being read, for errors.
    void enter(std::string what) { what_ = std::move(what); }
    [[noreturn]] void fail(const std::string& fault) const {
        throw Error(cat(file_.path().string(), " is no GGUF file that can be read: ", what_, " ", fault, "."));
    }
    [[nodiscard]] int64_t place() const { return place_; }
    [[nodiscard]] uint64_t left() const { return static_cast<uint64_t>(file_.size() - place_); }

    template <class T>
    [[nodiscard]] T number() {
        std::array<std::byte, sizeof(T)> bytes{};
        read(bytes);
        return std::bit_cast<T>(bytes);
    }
    [[nodiscard]] bool truth() {
        const auto byte = number<uint8_t>();
        if (byte > 1) {
            fail(cat("holds ", int{byte}, " where 0 or 1 is needed"));
        }
        return byte == 1;
    }
    [[nodiscard]] std::string text(size_t longest) {
        const auto length = number<uint64_t>();
        need(length);
        if (length > longest) {
            fail(cat("has a name of ", length, " bytes, and at most ", longest, " are allowed"));
        }
        std::string result(static_cast<size_t>(length), ' ');
        read(std::as_writable_bytes(std::span(result)));
        return result;
    }
    // A number of things that take at least so many bytes each; what the file cannot hold is not believed.
    [[nodiscard]] size_t count(uint64_t least_bytes_each) {
        const auto count = number<uint64_t>();
        if (count > left() / least_bytes_each) {
            fail(cat("announces ", count, " items, more than the ", left(), " bytes behind it can hold"));
        }
        return static_cast<size_t>(count);
    }

private:
    void need(uint64_t bytes) const {
        if (bytes > left()) {
            fail(cat("needs ", bytes, " bytes at ", place_, ", but the file ends at ", file_.size(),
                     ": it was cut short or is damaged"));
        }
    }
    // Through a buffer, because headers consist of hundreds of thousands of small fields.
    void read(std::span<std::byte> into) {
        need(into.size());
        const size_t buffered = buffer_.size() - used_;
        const size_t first = std::min(buffered, into.size());
        std::copy_n(buffer_.begin() + static_cast<std::ptrdiff_t>(used_), first, into.begin());
        used_ += first;
        place_ += static_cast<int64_t>(first);
        const std::span<std::byte> rest = into.subspan(first);
        if (rest.empty()) {
            return;
        }
        buffer_.resize(std::max(rest.size(), std::min<size_t>(kBufferBytes, left())));
        file_.read(place_, buffer_);
        std::copy_n(buffer_.begin(), rest.size(), rest.begin());
        used_ = rest.size();
        place_ += static_cast<int64_t>(rest.size());
    }

    static constexpr size_t kBufferBytes = size_t{1} << 16;
    const InputFile& file_;
    std::string what_ = "its header";
    std::vector<std::byte> buffer_;
    size_t used_ = 0;
    int64_t place_ = 0;
};

constexpr size_t kAnyLength = ~size_t{0};

template <class T>
T read_plain(Cursor& cursor) {
    if constexpr (std::is_same_v<T, bool>) {
        return cursor.truth();
    } else if constexpr (std::is_same_v<T, std::string>) {
        return cursor.text(kAnyLength);
    } else {
        return cursor.number<T>();
    }
}

template <class T>
std::vector<T> read_list(Cursor& cursor) {
    constexpr uint64_t kLeast = std::is_same_v<T, std::string> ? 8 : sizeof(T);
    const size_t count = cursor.count(kLeast);
    std::vector<T> values;
    values.reserve(count);
    for (size_t i = 0; i < count; ++i) {
        values.push_back(read_plain<T>(cursor));
    }
    return values;
}

template <size_t alternative = 0>
GgufArray read_array(Cursor& cursor, uint32_t type) {
    if constexpr (alternative < std::variant_size_v<GgufArray>) {
        if (type == element_type_of(alternative)) {
            using List = std::variant_alternative_t<alternative, GgufArray>;
            return read_list<typename List::value_type>(cursor);
        }
        return read_array<alternative + 1>(cursor, type);
    } else {
        cursor.fail(type == kGgufArrayType ? "is a list of lists, which ggml does not read either"
                                           : cat("is a list of type ", type, ", which is not known"));
    }
}

template <size_t alternative = 0>
GgufValue read_value(Cursor& cursor, uint32_t type) {
    if constexpr (alternative < std::variant_size_v<GgufValue>) {
        if (type != alternative) {
            return read_value<alternative + 1>(cursor, type);
        }
        using Value = std::variant_alternative_t<alternative, GgufValue>;
        if constexpr (std::is_same_v<Value, GgufArray>) {
            return read_array(cursor, cursor.number<uint32_t>());
        } else {
            return GgufValue(std::in_place_index<alternative>, read_plain<Value>(cursor));
        }
    } else {
        cursor.fail(cat("has the type ", type, ", which is not known"));
    }
}

int64_t alignment_of(const GgufValue* value, const Cursor& cursor) {
    if (value == nullptr) {
        return kGgufAlignment;
    }
    const auto* number = std::get_if<uint32_t>(value);
    if (number == nullptr || *number < 8 || !std::has_single_bit(*number)) {
        cursor.fail(cat("has the key ", kGgufAlignmentKey,
                        number == nullptr ? " of a type that is not u32" : cat(" = ", *number),
                        ", and a power of two from 8 up is needed"));
    }
    return *number;
}

// The bytes that a shape takes in a type; its rows must be whole blocks.
int64_t bytes_of(const GgufTensor& tensor, const TensorType& type, const Cursor& cursor) {
    int64_t blocks = 1;
    bool fits = tensor.shape.back() % type.block_elements == 0;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
        const bool innermost = i + 1 == tensor.shape.size();
        const int64_t extent = innermost ? tensor.shape[i] / type.block_elements : tensor.shape[i];
        fits = fits && extent >= 1 && !__builtin_mul_overflow(blocks, extent, &blocks);
    }
    int64_t elements = 0;
    int64_t bytes = 0;
    if (!fits || __builtin_mul_overflow(blocks, type.block_elements, &elements) ||
        __builtin_mul_overflow(blocks, type.block_bytes, &bytes)) {
        cursor.fail(cat("has a shape that is empty, too large, or not made of whole blocks of ", type.name));
    }
    return bytes;
}

GgufTensor read_tensor(Cursor& cursor, size_t index) {
    cursor.enter(cat("tensor number ", index));
    GgufTensor tensor;
    tensor.name = cursor.text(kGgufLongestName);
    cursor.enter(cat("tensor \"", tensor.name, "\""));
    const auto dimensions = cursor.number<uint32_t>();
    if (dimensions < 1 || dimensions > kGgufMostDimensions) {
        cursor.fail(cat("has ", dimensions, " dimensions, and 1 to ", kGgufMostDimensions, " are allowed"));
    }
    for (uint32_t i = 0; i < dimensions; ++i) {
        tensor.shape.insert(tensor.shape.begin(), cursor.number<int64_t>());
    }
    const auto number = cursor.number<uint32_t>();
    const auto* const type = std::find_if(kTensorTypes.begin(), kTensorTypes.end(),
                                          [&](const TensorType& known) { return known.number == number; });
    if (type == kTensorTypes.end()) {
        cursor.fail(cat("has the type ", number, ", which is not known"));
    }
    tensor.type = type->name;
    tensor.bytes = bytes_of(tensor, *type, cursor);
    tensor.offset = cursor.number<int64_t>();
    return tensor;
}

// Tensors lie one behind another, each at the next aligned place: ggml asks for it, and neither overlaps nor hidden
// bytes are possible then.
void place_tensors(std::vector<GgufTensor>& tensors, int64_t alignment, int64_t size, Cursor& cursor) {
    // Without tensors nothing follows, not even padding.
    const int64_t data = tensors.empty() ? cursor.place() : aligned(cursor.place(), alignment);
    int64_t place = 0;
    int64_t end = 0;
    for (GgufTensor& tensor : tensors) {
        cursor.enter(cat("tensor \"", tensor.name, "\""));
        if (tensor.offset != place) {
            cursor.fail(cat("begins at byte ", tensor.offset, " of the data, but its place is ", place,
                            ": behind the tensor before it, aligned to ", alignment));
        }
        if (data > size || tensor.bytes > size - data - place) {
            cursor.fail(cat("has ", tensor.bytes, " bytes at ", place,
                            " of the data, but the file ends before: ", "it was cut short or is damaged"));
        }
        tensor.offset = data + place;
        end = tensor.offset + tensor.bytes;
        place = aligned(place + tensor.bytes, alignment);
    }
    cursor.enter("the end");
    const int64_t most = aligned(std::max(end, cursor.place()), alignment);
    if (size > most) {
        cursor.fail(cat("has ", size - most, " bytes that belong to no tensor"));
    }
}

std::optional<FloatFormat> float_format_of(std::string_view type) {
    for (const FloatFormat format : {FloatFormat::fp32, FloatFormat::bf16, FloatFormat::fp16}) {
        if (type == stored_name_of(format)) {
            return format;
        }
    }
    return std::nullopt;
}

}  // namespace

int64_t length_of(const GgufArray& array) {
    return std::visit([](const auto& values) { return static_cast<int64_t>(values.size()); }, array);
}

std::string type_name_of(const GgufValue& value) {
    const auto* const array = std::get_if<GgufArray>(&value);
    return array == nullptr ? std::string(kValueTypes[value.index()])
                            : cat("list of ", kValueTypes[element_type_of(array->index())]);
}

int64_t GgufTensor::elements() const {
    int64_t product = 1;
    for (const int64_t extent : shape) {
        product *= extent;
    }
    return product;
}

GgufFile::GgufFile(const std::filesystem::path& path) : file_(path) {
    Cursor cursor(file_);
    const auto magic = cursor.number<std::array<char, 4>>();
    if (std::string_view(magic.data(), magic.size()) != kGgufMagic) {
        cursor.fail("does not begin with GGUF");
    }
    const auto version = cursor.number<uint32_t>();
    if (version != kGgufVersion) {
        cursor.fail(cat("has version ", version, ", and only ", kGgufVersion, " is known"));
    }
    // A tensor takes a name's length, a dimension's count and one dimension, a type and a place; a key its length, a
    // type and a value.
    constexpr uint64_t kLeastTensor = 8 + 4 + 8 + 4 + 8;
    constexpr uint64_t kLeastKey = 8 + 4 + 1;
    const size_t tensors = cursor.count(kLeastTensor);
    const size_t keys = cursor.count(kLeastKey);
    for (size_t i = 0; i < keys; ++i) {
        cursor.enter(cat("key number ", i));
        std::string key = cursor.text(kGgufLongestKey);
        cursor.enter(cat("key ", key));
        if (key.empty() || !keys_.emplace(key, i).second) {
            cursor.fail(key.empty() ? "is empty" : "is there twice");
        }
        metadata_.emplace_back(std::move(key), read_value(cursor, cursor.number<uint32_t>()));
    }
    cursor.enter("its header");
    alignment_ = alignment_of(find(kGgufAlignmentKey), cursor);
    for (size_t i = 0; i < tensors; ++i) {
        tensors_.push_back(read_tensor(cursor, i));
        if (!names_.emplace(tensors_.back().name, i).second) {
            cursor.fail("is there twice");
        }
    }
    place_tensors(tensors_, alignment_, file_.size(), cursor);
}

const GgufValue* GgufFile::find(std::string_view key) const {
    const auto found = keys_.find(key);
    return found == keys_.end() ? nullptr : &metadata_[found->second].second;
}

const GgufTensor* GgufFile::find_tensor(const std::string& name) const {
    const auto found = names_.find(name);
    return found == names_.end() ? nullptr : &tensors_[found->second];
}

void GgufFile::read_floats(const GgufTensor& tensor, std::span<float> into) const {
    const auto format = float_format_of(tensor.type);
    if (!format) {
        throw Error(cat(path().string(), ": tensor ", tensor.name, " has the type ", tensor.type,
                        "; F32, BF16 or F16 is needed. Take a file that is not quantized."));
    }
    if (static_cast<int64_t>(into.size()) != tensor.elements()) {
        throw Error(cat(path().string(), ": tensor ", tensor.name, " has ", tensor.elements(), " numbers, and ",
                        into.size(), " were asked for."));
    }
    const auto element_bytes = static_cast<size_t>(accrue::bytes_of(*format));
    constexpr size_t kPiece = size_t{1} << 16;
    std::vector<std::byte> bytes(std::min(kPiece, into.size()) * element_bytes);
    for (size_t done = 0; done < into.size(); done += kPiece) {
        const std::span<float> part = into.subspan(done, std::min(kPiece, into.size() - done));
        const auto read = std::span(bytes).first(part.size() * element_bytes);
        file_.read(tensor.offset + static_cast<int64_t>(done * element_bytes), read);
        read_stored(read, *format, part);
    }
}

}  // namespace accrue
