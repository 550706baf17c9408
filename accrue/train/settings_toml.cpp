#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "accrue/base/error.h"
#include "accrue/train/settings_table.h"

namespace accrue {
namespace {

// The comments of to_toml and describe_settings start here, unless a value is longer.
constexpr size_t kCommentColumn = 40;

// The shortest decimal that reads back as the same double; TOML tells it from an integer by its dot or exponent.
std::string number_text(double value) {
    char digits[32];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), value).ptr;
    const std::string text(digits, end);
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

// A bound as people write it: 1000000000, not 1e+09.
std::string bound_text(double value) {
    return value == std::floor(value) ? std::to_string(static_cast<int64_t>(value)) : number_text(value);
}

std::string list_text(const std::vector<std::string>& texts) {
    std::string list = "[";
    for (size_t i = 0; i < texts.size(); ++i) {
        list += (i == 0 ? "" : ", ") + toml_string(texts[i]);
    }
    return list + "]";
}

struct ValueText {
    std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
    std::string operator()(const std::optional<bool>* value) const { return *value ? (*this)(&**value) : "\"\""; }
    std::string operator()(const int64_t* value) const { return std::to_string(*value); }
    std::string operator()(const double* value) const { return number_text(*value); }
    std::string operator()(const std::string* value) const { return toml_string(*value); }
    std::string operator()(const std::vector<std::string>* value) const { return list_text(*value); }
    std::string operator()(const std::optional<ByteSize>* value) const {
        return toml_string(*value ? std::string_view((*value)->text) : kAuto);
    }
    std::string operator()(const std::optional<DeviceName>* value) const {
        return toml_string(*value ? text_of(**value) : std::string(kAuto));
    }
    std::string operator()(const WordPlace& place) const { return toml_string(place.word()); }
};

struct TypeText {
    std::string operator()(const bool*) const { return "true or false"; }
    std::string operator()(const std::optional<bool>*) const { return "true, false or \"\""; }
    std::string operator()(const int64_t*) const { return "an integer"; }
    std::string operator()(const double*) const { return "a number"; }
    std::string operator()(const std::string*) const { return "a text in quotes"; }
    std::string operator()(const std::vector<std::string>*) const { return "a list of texts in quotes"; }
    std::string operator()(const std::optional<ByteSize>*) const { return "a text in quotes"; }
    std::string operator()(const std::optional<DeviceName>*) const { return "a text in quotes"; }
    std::string operator()(const WordPlace&) const { return "a text in quotes"; }
};

std::string padded(std::string text) {
    text.resize(std::max(text.size() + 2, kCommentColumn), ' ');
    return text;
}

// "meaning (what is allowed)".
std::string comment_of(const Setting& setting) {
    const std::string allowed = setting.allowed();
    return allowed.empty() ? std::string(setting.meaning) : cat(setting.meaning, " (", allowed, ")");
}

}  // namespace

std::string toml_string(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            result += {'\\', c};
        } else if (byte < 0x20 || byte == 0x7f) {
            const char* hexadecimal = "0123456789abcdef";
            result += {'\\', 'u', '0', '0', hexadecimal[byte >> 4], hexadecimal[byte & 15]};
        } else {
            result += c;
        }
    }
    return result + '"';
}

bool Bounds::hold(double value) const {
    return (!at_least || value >= *at_least) && (!above || value > *above) && (!at_most || value <= *at_most) &&
           (!below || value < *below) && (!limit || value <= *limit);
}

std::string Bounds::text() const {
    std::string text;
    const auto add = [&text](const char* words, const std::optional<double>& bound) {
        if (bound) {
            text += cat(text.empty() ? "" : " and ", words, bound_text(*bound));
        }
    };
    add("at least ", at_least);
    add("above ", above);
    add("at most ", at_most);
    add("below ", below);
    add("at most ", limit);
    return text;
}

std::string Setting::key() const {
    return cat(section, ".", name);
}

std::string Setting::type() const {
    Settings any;
    return std::visit(TypeText(), place(any));
}

std::vector<std::string> Setting::words() const {
    Settings any;
    const SettingPlace where = place(any);
    const auto* const words = std::get_if<WordPlace>(&where);
    return words != nullptr ? words->words() : texts;
}

std::string Setting::allowed() const {
    Settings any;
    if (std::holds_alternative<std::optional<ByteSize>*>(place(any))) {
        return cat(toml_string(kAuto), " or a size like \"16GiB\"");
    }
    if (std::holds_alternative<std::optional<DeviceName>*>(place(any))) {
        return R"("auto", "cpu", "cuda", "cuda:1" (and so on) or "reference")";
    }
    const std::vector<std::string> known = words();
    std::string list;
    for (size_t i = 0; i < known.size(); ++i) {
        const char* separator = i == 0 ? "" : i + 1 == known.size() ? " or " : ", ";
        list += separator + (text == Text::data_files ? known[i] : toml_string(known[i]));
    }
    Bounds shown = bounds;
    shown.limit.reset();
    return list.empty() ? shown.text() : list;
}

std::string Setting::value_text(const Settings& settings) const {
    Settings copy = is_secret ? Settings() : settings;
    return std::visit(ValueText(), place(copy));
}

std::string to_toml(const Settings& settings) {
    std::string text(kResolvedSettingsMark);
    std::string_view section;
    for (const Setting& setting : settings_table()) {
        if (setting.section != section) {
            text += cat("\n[", setting.section, "]\n");
            section = setting.section;
        }
        text += cat(padded(cat(setting.name, " = ", setting.value_text(settings))), "# ", comment_of(setting), "\n");
    }
    return text;
}

std::string describe_settings() {
    std::string text;
    for (const Setting& setting : settings_table()) {
        text += cat(padded(cat(setting.key(), " = ", setting.value_text(Settings()))), comment_of(setting), "\n");
    }
    return text;
}

}  // namespace accrue
