#include "accrue/train/settings_value.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"

namespace accrue {
namespace {

std::string shown(const toml::node& node) {
    return node.is_string() ? toml_string(*node.value_exact<std::string>())
                            : cat(toml::node_view<const toml::node>(node));
}

bool contains(const std::vector<std::string>& list, const std::string& text) {
    return std::find(list.begin(), list.end(), text) != list.end();
}

void check_number(const Setting& setting, double value, const toml::node& node, const std::string& where) {
    if (!std::isfinite(value)) {
        throw Error(cat(where, ": ", setting.key(), " must be a finite number, but is ", shown(node), "."));
    }
    if (!setting.bounds.hold(value)) {
        throw Error(cat(where, ": ", setting.key(), " must be ", setting.bounds.text(), ", but is ", shown(node), "."));
    }
}

// Folders and patterns are judged when they are opened.
void check_data_file(const Setting& setting, const std::string& file, const std::string& where) {
    std::filesystem::path path = file;
    if (path.extension() == ".gz" || path.extension() == ".zst") {
        path.replace_extension();
    }
    std::error_code ignored;
    const bool is_many = file.find_first_of("*?") != std::string::npos || std::filesystem::is_directory(file, ignored);
    if (!is_many && !contains(setting.texts, path.extension().string())) {
        throw Error(cat(where, ": ", setting.key(), " names ", toml_string(file), ", but a file must end in ",
                        setting.allowed(), ", perhaps with .gz or .zst behind it."));
    }
}

[[noreturn]] void refuse_text(const Setting& setting, const std::string& text, const std::string& where) {
    throw Error(cat(where, ": ", setting.key(), " must be ", setting.allowed(), ", but is ", toml_string(text), "."));
}

void check_text(const Setting& setting, const std::string& text, const std::string& where) {
    if (setting.text == Setting::Text::data_files) {
        check_data_file(setting, text, where);
    } else if (!setting.texts.empty() && !contains(setting.texts, text)) {
        refuse_text(setting, text, where);
    }
}

// Absolute, so that the text means the same file wherever the resolved settings are read again.
std::string resolved_path(const std::string& path, const std::filesystem::path& folder) {
    return path.empty() ? path : std::filesystem::absolute(folder / path).lexically_normal().string();
}

// Reads a node as the type of the place it is given.
struct ValueTaker {
    const Setting& setting;
    const toml::node& node;
    const SettingSource& source;

    [[nodiscard]] std::string where() const { return source.at(node.source()); }

    [[noreturn]] void wrong_type() const {
        throw Error(
            cat(where(), ": ", setting.key(), " must be ", setting.type(), ", but ", found_text(node), " was found."));
    }

    void operator()(bool* place) const {
        if (!node.is_boolean()) {
            wrong_type();
        }
        *place = *node.value_exact<bool>();
    }

    void operator()(std::optional<bool>* place) const {
        const bool is_open = node.is_string() && node.value_exact<std::string>()->empty();
        if (!node.is_boolean() && !is_open) {
            wrong_type();
        }
        *place = node.value_exact<bool>();
    }

    void operator()(int64_t* place) const {
        if (!node.is_integer()) {
            wrong_type();
        }
        const int64_t value = *node.value_exact<int64_t>();
        check_number(setting, static_cast<double>(value), node, where());
        *place = value;
    }

    void operator()(double* place) const {
        if (!node.is_number()) {
            wrong_type();
        }
        const double value =
            node.is_integer() ? static_cast<double>(*node.value_exact<int64_t>()) : *node.value_exact<double>();
        check_number(setting, value, node, where());
        *place = value;
    }

    [[nodiscard]] std::string text() const {
        if (!node.is_string()) {
            wrong_type();
        }
        return *node.value_exact<std::string>();
    }

    void operator()(std::optional<ByteSize>* place) const {
        const std::string given = text();
        std::optional<ByteSize> size = parse_byte_size(given);
        if (given != kAuto && (!size || size->bytes == 0)) {
            refuse_text(setting, given, where());
        }
        *place = std::move(size);
    }

    void operator()(std::optional<DeviceName>* place) const {
        const std::string given = text();
        const std::optional<DeviceName> device = parse_device(given);
        if (given != kAuto && !device) {
            refuse_text(setting, given, where());
        }
        *place = device;
    }

    void operator()(const WordPlace& place) const {
        if (const std::string word = text(); !place.take(word)) {
            refuse_text(setting, word, where());
        }
    }

    void operator()(std::string* place) const {
        std::string text = this->text();
        const bool is_path = setting.text == Setting::Text::path || setting.text == Setting::Text::data_files ||
                             (setting.text == Setting::Text::tokenizer && text != "byte");
        if (is_path) {
            text = resolved_path(text, source.folder);
        }
        check_text(setting, text, where());
        *place = std::move(text);
    }

    void operator()(std::vector<std::string>* place) const {
        if (!node.is_array()) {
            wrong_type();
        }
        std::vector<std::string> texts;
        for (const toml::node& element : *node.as_array()) {
            ValueTaker{setting, element, source}(&texts.emplace_back());
        }
        *place = std::move(texts);
    }
};

// The text as the value of a TOML key; empty if it is not one.
toml::table parse_value(const std::string& text) {
    try {
        toml::table table = toml::parse("value = " + text);
        return table.size() == 1 ? table : toml::table();
    } catch (const toml::parse_error&) {
        return {};
    }
}

// Of a setting's value, as TOML writes it.
struct IsText {
    template <class Value>
    bool operator()(const Value&) const {
        return std::is_same_v<Value, std::string*> || std::is_same_v<Value, std::optional<ByteSize>*> ||
               std::is_same_v<Value, std::optional<DeviceName>*> || std::is_same_v<Value, WordPlace>;
    }
};

}  // namespace

std::string SettingSource::at(const toml::source_region& region) const {
    return kind == Kind::file ? cat(name, ", line ", region.begin.line) : name;
}

std::string found_text(const toml::node& node) {
    const auto with_value = [&node](const char* type) { return cat(type, " (", shown(node), ")"); };
    switch (node.type()) {
        case toml::node_type::string:
            return with_value("a text");
        case toml::node_type::integer:
            return with_value("an integer");
        case toml::node_type::floating_point:
            return with_value("a number with a fraction");
        case toml::node_type::boolean:
            return with_value("a truth value");
        case toml::node_type::array:
            return "a list";
        case toml::node_type::table:
            return "a section";
        default:
            return with_value("a date or time");
    }
}

void take_value(const Setting& setting, const toml::node& node, const SettingSource& source, Settings& settings) {
    std::visit(ValueTaker{setting, node, source}, setting.place(settings));
}

toml::table parse_override(const Setting& setting, const std::string& text, const SettingSource& source) {
    toml::table table = parse_value(text);
    Settings any;
    const SettingPlace place = setting.place(any);
    const bool is_bare = text.empty() || std::string_view("\"'[{").find(text.front()) == std::string_view::npos;
    if (table.empty() && is_bare && std::visit(IsText(), place)) {
        table = parse_value(toml_string(text));
    } else if (table.empty() && is_bare && std::holds_alternative<std::vector<std::string>*>(place)) {
        table = parse_value(cat("[", toml_string(text), "]"));
    }
    if (table.empty()) {
        throw Error(
            cat(source.name, ": ", setting.key(), " must be ", setting.type(), ", but what follows the = is not one."));
    }
    return table;
}

}  // namespace accrue
