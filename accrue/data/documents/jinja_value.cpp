#include <algorithm>
#include <array>

#include "accrue/base/error.h"
#include "accrue/data/documents/jinja_parts.h"
#include "accrue/data/tokenizers/unicode.h"

namespace accrue {
namespace {

constexpr size_t kLongestList = 1000;

bool is_undefined(const JinjaValue& value) {
    return value.is_discarded();
}

const std::string& string_in(const JinjaValue& value, const char* use) {
    if (!value.is_string()) {
        throw Error(cat(use, " of a value that is ", is_undefined(value) ? "undefined" : value.type_name()));
    }
    return value.get_ref<const std::string&>();
}

JinjaValue added(const JinjaValue& left, const JinjaValue& right) {
    if (left.is_string() && right.is_string()) {
        return left.get_ref<const std::string&>() + right.get_ref<const std::string&>();
    }
    if (left.is_array() && right.is_array() && left.size() + right.size() <= kLongestList) {
        JinjaValue both = left;
        both.insert(both.end(), right.begin(), right.end());
        return both;
    }
    throw Error(cat("+ between ", left.type_name(), " and ", right.type_name()));
}

bool contains_value(const JinjaValue& in, const JinjaValue& value) {
    if (in.is_string()) {
        return in.get_ref<const std::string&>().find(string_in(value, "in")) != std::string::npos;
    }
    if (in.is_object()) {
        return in.contains(string_in(value, "in"));
    }
    return in.is_array() && std::find(in.begin(), in.end(), value) != in.end();
}

std::string capitalized(std::string text) {
    for (size_t i = 0; i < text.size(); ++i) {
        if (static_cast<unsigned char>(text[i]) >= 0x80) {
            throw Error("capitalize with letters beyond ASCII");
        }
        const bool is_letter = (text[i] | 0x20) >= 'a' && (text[i] | 0x20) <= 'z';
        text[i] = static_cast<char>(is_letter ? (i == 0 ? text[i] & ~0x20 : text[i] | 0x20) : text[i]);
    }
    return text;
}

JinjaValue length_of(const JinjaValue& value) {
    if (value.is_string() || (!value.is_array() && !value.is_object())) {
        throw Error("the length of a value that is no list");
    }
    return static_cast<int64_t>(value.size());
}

// A place of a list, counted from its end if it is negative.
std::optional<size_t> place_in(const JinjaValue& list, const JinjaValue& index) {
    const auto place = index.get<int64_t>() + (index.get<int64_t>() < 0 ? static_cast<int64_t>(list.size()) : 0);
    return place >= 0 && place < static_cast<int64_t>(list.size()) ? std::optional(static_cast<size_t>(place))
                                                                   : std::nullopt;
}

}  // namespace

JinjaValue jinja_computed(const std::string& sign, const JinjaValue& left, const JinjaValue& right) {
    if (sign == "+" && !left.is_number_integer()) {
        return added(left, right);
    }
    if (!left.is_number_integer() || !right.is_number_integer()) {
        throw Error(cat(sign, " between ", left.type_name(), " and ", right.type_name()));
    }
    const auto a = left.get<int64_t>();
    const auto b = right.get<int64_t>();
    constexpr int64_t kLimit = 1'000'000'000;
    if (std::max({a, b, -a, -b}) > kLimit || (sign == "%" && b <= 0) || (sign == "%" && a < 0)) {
        throw Error(cat(sign, " with such numbers"));
    }
    if (sign == "+" || sign == "-") {
        return sign == "+" ? a + b : a - b;
    }
    if (sign == "*") {
        return a * b;
    }
    return a % b;
}

bool jinja_compared(const std::string& sign, const JinjaValue& left, const JinjaValue& right) {
    if (sign == "in") {
        return contains_value(right, left);
    }
    if (sign == "not in") {
        return !contains_value(right, left);
    }
    const bool is_equal =
        is_undefined(left) || is_undefined(right) ? is_undefined(left) && is_undefined(right) : left == right;
    if (sign == "==" || sign == "!=") {
        return is_equal == (sign == "==");
    }
    if (!left.is_number_integer() || !right.is_number_integer()) {
        throw Error(cat(sign, " between ", left.type_name(), " and ", right.type_name()));
    }
    const auto a = left.get<int64_t>();
    const auto b = right.get<int64_t>();
    return sign == "<" ? a < b : (sign == ">" ? a > b : (sign == "<=" ? a <= b : a >= b));
}

JinjaValue jinja_filtered(const std::string& name, const JinjaValue& value, const JinjaValue& argument) {
    if (name == "trim" && is_undefined(argument)) {
        return std::string(trimmed(string_in(value, "trim")));
    }
    if (name == "length" || name == "count") {
        return length_of(value);
    }
    if (name == "string") {
        return jinja_text(value);
    }
    if (name == "default" || name == "d") {
        return is_undefined(value) ? argument : value;
    }
    if ((name == "first" || name == "last") && value.is_array()) {
        return value.empty() ? jinja_undefined() : (name == "first" ? value.front() : value.back());
    }
    if (name == "list" && value.is_array()) {
        return value;
    }
    if (name == "capitalize") {
        return capitalized(string_in(value, "capitalize"));
    }
    throw Error(cat("the filter ", name));
}

JinjaValue jinja_method(const JinjaValue& of, const std::string& name, const JinjaValue& argument) {
    const std::string& text = string_in(of, name.c_str());
    if (name == "startswith") {
        return text.starts_with(string_in(argument, "startswith"));
    }
    if (name == "endswith") {
        return text.ends_with(string_in(argument, "endswith"));
    }
    if (name == "strip" && is_undefined(argument)) {
        return std::string(trimmed(text));
    }
    throw Error(cat("the method ", name));
}

JinjaValue jinja_slice(const JinjaValue& list, const std::array<JinjaValue, 3>& bounds) {
    if (!list.is_array()) {
        throw Error("a part of a value that is no list");
    }
    const auto size = static_cast<int64_t>(list.size());
    const auto bound = [&](const JinjaValue& value, int64_t otherwise) {
        if (!value.is_number_integer()) {
            return otherwise;
        }
        const auto place = value.get<int64_t>();
        return std::clamp<int64_t>(place < 0 ? place + size : place, 0, size);
    };
    JinjaValue part = JinjaValue::array();
    if (bounds[2] == -1 && is_undefined(bounds[0]) && is_undefined(bounds[1])) {
        part.insert(part.end(), list.begin(), list.end());
        std::reverse(part.begin(), part.end());
        return part;
    }
    if (!is_undefined(bounds[2]) && bounds[2] != 1) {
        throw Error("a part of a list in such steps");
    }
    for (int64_t place = bound(bounds[0], 0); place < bound(bounds[1], size); ++place) {
        part.push_back(list[static_cast<size_t>(place)]);
    }
    return part;
}

JinjaValue jinja_range(const JinjaValue& first, const JinjaValue& second) {
    constexpr auto kLongest = static_cast<int64_t>(kLongestList);
    const bool has_begin = !is_undefined(second);
    if (!first.is_number_integer() || (has_begin && !second.is_number_integer())) {
        throw Error("a range of values that are no numbers");
    }
    const int64_t begin = has_begin ? first.get<int64_t>() : 0;
    const int64_t end = has_begin ? second.get<int64_t>() : first.get<int64_t>();
    if (begin < -kLongest || end > kLongest) {
        throw Error("a range of such numbers");
    }
    JinjaValue numbers = JinjaValue::array();
    for (int64_t number = begin; number < end; ++number) {
        numbers.push_back(number);
    }
    return numbers;
}

JinjaValue jinja_element(const JinjaValue& of, const JinjaValue& index) {
    if (of.is_array() && index.is_number_integer()) {
        const std::optional<size_t> place = place_in(of, index);
        return place ? of[*place] : jinja_undefined();
    }
    if (of.is_object() && index.is_string()) {
        const auto& name = index.get_ref<const std::string&>();
        return of.contains(name) ? of[name] : jinja_undefined();
    }
    throw Error(cat("an element of a value that is ", is_undefined(of) ? "undefined" : of.type_name()));
}

bool is_flat(const JinjaValue& value) {
    return value.is_discarded() || value.is_primitive() ||
           (value.is_object() &&
            std::all_of(value.begin(), value.end(), [](const JinjaValue& one) { return one.is_primitive(); }));
}

bool is_true(const JinjaValue& value) {
    if (value.is_boolean()) {
        return value.get<bool>();
    }
    if (value.is_number()) {
        return value != 0;
    }
    return !is_undefined(value) && (value.is_string() ? !value.get_ref<const std::string&>().empty() : !value.empty());
}

std::string jinja_text(const JinjaValue& value) {
    if (value.is_string()) {
        return value.get<std::string>();
    }
    if (value.is_boolean()) {
        return value.get<bool>() ? "True" : "False";
    }
    if (value.is_number_integer()) {
        return std::to_string(value.get<int64_t>());
    }
    if (is_undefined(value) || value.is_null()) {
        return is_undefined(value) ? "" : "None";
    }
    throw Error(cat("the text of a value that is ", value.type_name()));
}

}  // namespace accrue
