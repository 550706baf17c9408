#include "accrue/tensor/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/hash.h"
#include "accrue/tensor/dtype.h"
#include "accrue/tensor/half.h"

namespace accrue {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian and read as they are");

// The limit of the format's own library: a longer header is taken for an attack or for another kind of file.
constexpr uint64_t kMostHeaderBytes = 100'000'000;

// A header has three. What has thousands would overflow the stack where an error quotes it.
constexpr int kMostLevels = 100;

struct KnownType {
    std::string_view name;
    int64_t bytes;
};
constexpr std::array<KnownType, 15> kTypes = {{
    {"F64", 8},
    {"F32", 4},
    {"F16", 2},
    {"BF16", 2},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
    {"I64", 8},
    {"I32", 4},
    {"I16", 2},
    {"I8", 1},
    {"U64", 8},
    {"U32", 4},
    {"U16", 2},
    {"U8", 1},
    {"BOOL", 1},
}};

std::optional<int64_t> bytes_of_type(std::string_view name) {
    const auto* const found =
        std::find_if(kTypes.begin(), kTypes.end(), [&](const KnownType& type) { return type.name == name; });
    return found == kTypes.end() ? std::nullopt : std::optional(found->bytes);
}

// The product of a shape and the size of an element; nothing if it is negative or does not fit 64 bits.
std::optional<int64_t> bytes_of_shape(const std::vector<int64_t>& shape, int64_t element_bytes) {
    int64_t product = element_bytes;
    for (const int64_t extent : shape) {
        if (extent < 0 || __builtin_mul_overflow(product, extent, &product)) {
            return std::nullopt;
        }
    }
    return product;
}

std::string text_of(const std::vector<int64_t>& shape) {
    return Json(shape).dump();
}

// Errors about a file, and about a tensor in it.
struct Complaint {
    std::string file;

    [[noreturn]] void operator()(const std::string& what) const {
        throw Error(cat(file, " is no safetensors file: ", what));
    }
    [[noreturn]] void operator()(const std::string& tensor, const std::string& what) const {
        throw Error(cat(file, ": tensor ", tensor, " ", what));
    }
};

// The library's parser keeps the last of two equal keys, which would hide a tensor.
Json parse_header(std::string_view text, const Complaint& complain) {
    std::vector<std::set<std::string>> keys;
    const auto watch = [&](int level, Json::parse_event_t event, Json& parsed) {
        if (level > kMostLevels) {
            complain(cat("its header has more than ", kMostLevels, " levels of brackets"));
        }
        if (event == Json::parse_event_t::object_start) {
            keys.emplace_back();
        } else if (event == Json::parse_event_t::object_end) {
            keys.pop_back();
        } else if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
            complain(cat("its header has two entries named ", parsed.get<std::string>()));
        }
        return true;
    };
    try {
        Json header = Json::parse(text, watch);
        if (header.is_object()) {
            return header;
        }
    } catch (const Json::exception& fault) {
        complain(cat("its header is not JSON (", fault.what(), ")"));
    }
    complain("its header is not a JSON object");
}

int64_t whole_number(const Json& value, const std::string& name, const Complaint& complain) {
    const bool fits =
        value.is_number_unsigned() && value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
    if (!fits) {
        complain(name, cat("has ", value.dump(), " where a whole number from 0 to 2^63-1 is needed"));
    }
    return value.get<int64_t>();
}

std::vector<int64_t> whole_numbers(const Json& entry, const char* key, const std::string& name,
                                   const Complaint& complain) {
    if (!entry.contains(key) || !entry[key].is_array()) {
        complain(name, cat("has no list ", key));
    }
    std::vector<int64_t> result;
    for (const Json& value : entry[key]) {
        result.push_back(whole_number(value, name, complain));
    }
    return result;
}

// One entry of the header; `data` is where the tensors begin in the file, `data_bytes` how many bytes all of them have.
StoredTensor parse_tensor(const Json& entry, const std::string& name, int64_t data, int64_t data_bytes,
                          const Complaint& complain) {
    if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string()) {
        complain(name, "has no dtype");
    }
    StoredTensor tensor;
    tensor.dtype = entry["dtype"].get<std::string>();
    const std::optional<int64_t> element_bytes = bytes_of_type(tensor.dtype);
    if (!element_bytes) {
        complain(name, cat("has the dtype ", tensor.dtype, ", which is not known"));
    }
    tensor.shape = whole_numbers(entry, "shape", name, complain);
    const std::vector<int64_t> offsets = whole_numbers(entry, "data_offsets", name, complain);
    if (offsets.size() != 2 || offsets[0] > offsets[1]) {
        complain(name, cat("has data_offsets ", text_of(offsets), ", which are not a begin and an end"));
    }
    if (offsets[1] > data_bytes) {
        complain(name, cat("ends at byte ", offsets[1], " of the data, but the file has only ", data_bytes,
                           ": it was cut short or is damaged"));
    }
    tensor.offset = data + offsets[0];
    tensor.bytes = offsets[1] - offsets[0];
    if (bytes_of_shape(tensor.shape, *element_bytes) != tensor.bytes) {
        complain(name,
                 cat("has ", tensor.bytes, " bytes, which do not make ", tensor.dtype, " ", text_of(tensor.shape)));
    }
    return tensor;
}

// The format asks that tensors cover the data without holes; both faults would hide or alias bytes.
void check_cover(const std::map<std::string, StoredTensor>& tensors, int64_t begin, int64_t end,
                 const Complaint& complain) {
    std::vector<std::pair<const std::string*, const StoredTensor*>> by_place;
    for (const auto& [name, tensor] : tensors) {
        by_place.emplace_back(&name, &tensor);
    }
    std::sort(by_place.begin(), by_place.end(), [](const auto& a, const auto& b) {
        return std::pair(a.second->offset, a.second->bytes) < std::pair(b.second->offset, b.second->bytes);
    });
    int64_t place = begin;
    const std::string* before = nullptr;
    for (const auto& [name, tensor] : by_place) {
        if (tensor->offset < place) {
            complain(*name, cat("overlaps tensor ", *before));
        }
        if (tensor->offset > place) {
            complain(*name, cat("follows a hole of ", tensor->offset - place, " bytes that belong to no tensor"));
        }
        place = tensor->offset + tensor->bytes;
        before = name;
    }
    if (place != end) {
        complain(cat("its last ", end - place, " bytes belong to no tensor"));
    }
}

// Reads a tensor in pieces and hands each element, still in its stored type, to `convert`.
template <class Stored, class Target, class Convert>
void read_converted(const InputFile& file, const StoredTensor& tensor, int64_t first, std::span<Target> into,
                    Convert convert) {
    constexpr size_t kPiece = size_t{1} << 16;
    std::vector<Stored> piece(std::min(kPiece, into.size()));
    for (size_t done = 0; done < into.size(); done += kPiece) {
        const std::span<Stored> part = std::span(piece).first(std::min(kPiece, into.size() - done));
        const int64_t place = (first + static_cast<int64_t>(done)) * static_cast<int64_t>(sizeof(Stored));
        file.read(tensor.offset + place, std::as_writable_bytes(part));
        std::transform(part.begin(), part.end(), into.begin() + static_cast<std::ptrdiff_t>(done), convert);
    }
}

}  // namespace

int64_t StoredTensor::elements() const {
    return bytes_of_shape(shape, 1).value_or(0);
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
    const Complaint complain{path.string()};
    uint64_t header_bytes = 0;
    if (file_.size() < 8) {
        complain(cat("it has ", file_.size(), " bytes, fewer than the length of a header takes"));
    }
    file_.read(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
    if (header_bytes > kMostHeaderBytes) {
        complain(cat("its header would have ", header_bytes, " bytes, and at most ", kMostHeaderBytes, " are allowed"));
    }
    if (static_cast<int64_t>(header_bytes) > file_.size() - 8) {
        complain(cat("its header has ", header_bytes, " bytes, but the file ends after ", file_.size() - 8,
                     " of them: it was cut short or is damaged"));
    }
    std::string text(header_bytes, ' ');
    file_.read(8, std::as_writable_bytes(std::span(text)));
    const int64_t data = 8 + static_cast<int64_t>(header_bytes);
    const Json header = parse_header(text, complain);
    for (const auto& [name, entry] : header.items()) {
        if (name != "__metadata__") {
            tensors_.emplace(name, parse_tensor(entry, name, data, file_.size() - data, complain));
        }
    }
    check_cover(tensors_, data, file_.size(), complain);
}

const StoredTensor& SafetensorsFile::at(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found != tensors_.end()) {
        return found->second;
    }
    std::string names;
    for (const auto& [known, tensor] : tensors_) {
        names += (names.empty() ? "" : ", ") + known;
    }
    throw Error(cat(path().string(), " has no tensor ", name, ". It has: ", names.empty() ? "none" : names));
}

void SafetensorsFile::read_bytes(const StoredTensor& tensor, std::span<std::byte> into) const {
    if (static_cast<int64_t>(into.size()) != tensor.bytes) {
        throw Error(
            cat(path().string(), ": a tensor of ", tensor.bytes, " bytes was asked for as ", into.size(), " bytes"));
    }
    file_.read(tensor.offset, into);
}

void SafetensorsFile::read_bytes(const StoredTensor& tensor, int64_t first, std::span<std::byte> into) const {
    file_.read(tensor.offset + first, into);
}

void SafetensorsFile::read_floats(const std::string& name, std::span<float> into) const {
    require_elements(name, std::ssize(into));
    read_floats(name, 0, into);
}

void SafetensorsFile::require_elements(const std::string& name, int64_t elements) const {
    const StoredTensor& tensor = at(name);
    if (elements != tensor.elements()) {
        Complaint{path().string()}(
            name, cat("has the shape ", text_of(tensor.shape), ", and ", elements, " numbers were asked for"));
    }
}

void SafetensorsFile::read_floats(const std::string& name, int64_t first, std::span<float> into) const {
    const StoredTensor& tensor = at(name);
    if (tensor.dtype == "F32") {
        file_.read(tensor.offset + first * static_cast<int64_t>(sizeof(float)), std::as_writable_bytes(into));
    } else if (tensor.dtype == "BF16") {
        read_converted<Bf16>(file_, tensor, first, into, [](Bf16 value) { return static_cast<float>(value); });
    } else if (tensor.dtype == "F16") {
        read_converted<uint16_t>(file_, tensor, first, into, float_of_half);
    } else if (tensor.dtype == "F64") {
        read_converted<double>(file_, tensor, first, into, [](double value) { return static_cast<float>(value); });
    } else {
        Complaint{path().string()}(name, cat("has the dtype ", tensor.dtype, "; F32, BF16, F16 or F64 is needed"));
    }
}

std::vector<int64_t> SafetensorsFile::read_integers(const std::string& name) const {
    const StoredTensor& tensor = at(name);
    const auto widen = [](auto value) { return static_cast<int64_t>(value); };
    if (tensor.dtype != "I64" && tensor.dtype != "I32" && tensor.dtype != "I16" && tensor.dtype != "U8") {
        Complaint{path().string()}(name, cat("has the dtype ", tensor.dtype, "; I64, I32, I16 or U8 is needed"));
    }
    std::vector<int64_t> result(static_cast<size_t>(tensor.elements()));
    const std::span<int64_t> into(result);
    if (tensor.dtype == "I64") {
        read_converted<int64_t>(file_, tensor, 0, into, widen);
    } else if (tensor.dtype == "I32") {
        read_converted<int32_t>(file_, tensor, 0, into, widen);
    } else if (tensor.dtype == "I16") {
        read_converted<int16_t>(file_, tensor, 0, into, widen);
    } else {
        read_converted<uint8_t>(file_, tensor, 0, into, widen);
    }
    return result;
}

namespace {

// The header as text, padded with spaces so that the data begins at a multiple of 8.
std::string header_of(const std::vector<TensorToStore>& tensors, const Complaint& complain) {
    nlohmann::ordered_json header;
    header["__metadata__"]["format"] = "pt";
    int64_t place = 0;
    for (const TensorToStore& tensor : tensors) {
        if (header.contains(tensor.name)) {
            complain(tensor.name, "cannot be written: the name is taken");
        }
        const std::optional<int64_t> element_bytes = bytes_of_type(tensor.dtype);
        const int64_t bytes = tensor.bytes.size();
        if (!element_bytes || bytes_of_shape(tensor.shape, *element_bytes) != bytes) {
            complain(tensor.name, cat("cannot be written: ", bytes, " bytes do not make ", tensor.dtype, " ",
                                      text_of(tensor.shape)));
        }
        header[tensor.name] = {
            {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {place, place + bytes}}};
        place += bytes;
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return text;
}

}  // namespace

std::string write_safetensors(const std::filesystem::path& path, std::vector<TensorToStore> tensors,
                              const std::function<void(int64_t)>& wrote) {
    std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    const std::string header = header_of(tensors, Complaint{path.string()});
    const uint64_t header_bytes = header.size();
    OutputFile file(path);
    Hasher hasher;
    // In pieces that a cache holds, because each is read twice.
    constexpr int64_t kPieceBytes = int64_t{1} << 20;
    const auto put = [&](const ByteSource& bytes) {
        bytes.for_pieces(kPieceBytes, [&](std::span<const std::byte> piece) {
            hasher.add(piece);
            file.write(piece);
            if (wrote) {
                wrote(std::ssize(piece));
            }
        });
    };
    put(std::as_bytes(std::span(&header_bytes, 1)));
    put(std::as_bytes(std::span(header)));
    for (const TensorToStore& tensor : tensors) {
        put(tensor.bytes);
    }
    file.close_synced();
    return hasher.digest();
}

}  // namespace accrue
