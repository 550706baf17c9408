#include "accrue/data/documents/token_rows.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "accrue/base/error.h"

namespace accrue {
namespace {

constexpr int64_t kIgnoredLabel = -100;  // PyTorch's ignore_index, which Hugging Face uses in labels

std::string text_of(const std::vector<int64_t>& shape) {
    std::string text = "[";
    for (const int64_t extent : shape) {
        text += cat(text.size() > 1 ? ", " : "", extent);
    }
    return text + "]";
}

void check_shapes(const SafetensorsFile& file, const std::string& name) {
    const std::vector<int64_t>& shape = file.at("input_ids").shape;
    if (shape.size() != 2) {
        throw Error(cat(name, ": input_ids has the shape ", text_of(shape), ", and [samples, tokens] is needed"));
    }
    if (file.at("input_ids").elements() == 0) {
        throw Error(cat(name, " is empty: input_ids has the shape ", text_of(shape)));
    }
    if (file.has("labels") && file.at("labels").shape != shape) {
        throw Error(cat(name, ": labels has the shape ", text_of(file.at("labels").shape), ", but input_ids has ",
                        text_of(shape)));
    }
}

void check_dtype(const SafetensorsFile& file, const std::string& tensor, const std::string& name) {
    const std::string& dtype = file.at(tensor).dtype;
    if (dtype != "I64" && dtype != "I32" && dtype != "I16" && dtype != "U8") {
        throw Error(cat(name, ": tensor ", tensor, " has the dtype ", dtype, "; I64, I32, I16 or U8 is needed"));
    }
}

template <class Stored>
std::vector<int64_t> read_widened(const SafetensorsFile& file, const StoredTensor& stored, int64_t count) {
    std::vector<Stored> numbers(static_cast<size_t>(count));
    file.read_bytes(stored, std::as_writable_bytes(std::span(numbers)));
    return {numbers.begin(), numbers.end()};
}

// A row of a tensor is itself a stretch of stored bytes.
std::vector<int64_t> read_row(const SafetensorsFile& file, const std::string& tensor, int64_t index) {
    StoredTensor stored = file.at(tensor);
    const int64_t count = stored.shape[1];
    stored.bytes /= stored.shape[0];
    stored.offset += index * stored.bytes;
    if (stored.dtype == "I64") {
        return read_widened<int64_t>(file, stored, count);
    }
    if (stored.dtype == "I32") {
        return read_widened<int32_t>(file, stored, count);
    }
    if (stored.dtype == "I16") {
        return read_widened<int16_t>(file, stored, count);
    }
    return read_widened<uint8_t>(file, stored, count);
}

}  // namespace

TokenRows::TokenRows(const std::filesystem::path& file, std::string name) : name_(std::move(name)), file_(file) {
    check_shapes(file_, name_);
    check_dtype(file_, "input_ids", name_);
    if (file_.has("labels")) {
        check_dtype(file_, "labels", name_);
    }
}

TokenRows::Row TokenRows::row(int64_t index) const {
    Row result;
    result.ids = read("input_ids", index, Ignored::refused);
    result.labels = file_.has("labels") ? read("labels", index, Ignored::allowed) : result.ids;
    return result;
}

// Each number is checked: ids and labels from 0 on, and -100, which becomes -1, where it is allowed.
std::vector<int32_t> TokenRows::read(const std::string& tensor, int64_t index, Ignored ignored) const {
    const std::vector<int64_t> numbers = read_row(file_, tensor, index);
    std::vector<int32_t> tokens(numbers.size());
    for (size_t place = 0; place < numbers.size(); ++place) {
        const int64_t number = numbers[place];
        const bool skip = ignored == Ignored::allowed && number == kIgnoredLabel;
        if (!skip && (number < 0 || number > std::numeric_limits<int32_t>::max())) {
            throw Error(cat(name_, ": ", tensor, " of sample ", index, ", place ", place, " is ", number,
                            ", and a token from 0 to 2^31-1 is needed",
                            ignored == Ignored::allowed ? " (or -100, which is not counted)" : ""));
        }
        tokens[place] = skip ? -1 : static_cast<int32_t>(number);
    }
    return tokens;
}

}  // namespace accrue
