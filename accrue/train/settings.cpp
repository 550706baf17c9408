#include "accrue/train/settings.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include <toml++/toml.h>

#include "accrue/accumulate/loss_scale.h"
#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/train/nearest.h"
#include "accrue/train/settings_table.h"
#include "accrue/train/settings_value.h"

namespace accrue {
namespace {

// Small models learn best with larger steps: the default job ends at a validation loss of 0.48, with 3e-4 at 1.16.
constexpr double kTinyRate = 1.5e-3;

// Takes values one source after the other and remembers which keys were given; drop it after an error.
class Reader {
public:
    void read_file(const std::filesystem::path& file);
    void read_text_of(const std::string& text, const SettingSource& source);
    void read_override(const std::string& text);
    // The settings, once the checks across keys hold.
    [[nodiscard]] Settings finished() const;

private:
    struct Given {
        std::string where;
        SettingSource::Kind kind = SettingSource::Kind::file;
    };

    [[nodiscard]] const Setting& find(const std::string& key, const std::string& where) const;
    void check_section(const std::string& name, const toml::node& node, const std::string& where) const;
    void take(const Setting& setting, const toml::node& node, const SettingSource& source);
    [[nodiscard]] const Given* given(const std::string& key) const;
    void refuse_shape_beside_folder() const;
    void choose_model(Settings::Model& model) const;
    [[nodiscard]] bool second_is_chosen(const std::string& first_key, const std::string& second_key) const;

    std::vector<Setting> table_ = settings_table();
    Settings settings_;
    std::map<std::string, Given> given_;
};

// The value with which a setting does not speak for itself: of two keys that exclude each other, one has it.
bool is_off(const std::string& value_text) {
    return value_text == "\"\"" || value_text == "0";
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) {
        text += (text.empty() ? "" : ", ") + word;
    }
    return text;
}

// What somebody may have meant by a key that is none; without a guess, what there is to choose from.
std::string hint_for_key(const std::string& key, const std::vector<std::string>& keys) {
    if (const std::string near = nearest_text(key, keys); !near.empty()) {
        return cat("Did you mean ", near, "?");
    }
    const std::string section = key.substr(0, key.find('.') + 1);
    std::vector<std::string> beside;
    std::copy_if(keys.begin(), keys.end(), std::back_inserter(beside),
                 [&](const std::string& known) { return !section.empty() && known.starts_with(section); });
    return cat(beside.empty() ? "" : cat("There are ", joined(beside), ". "),
               "accrue train --help lists all settings with their meaning.");
}

const Setting& Reader::find(const std::string& key, const std::string& where) const {
    std::vector<std::string> keys;
    for (const Setting& setting : table_) {
        if (setting.key() == key) {
            return setting;
        }
        keys.push_back(setting.key());
    }
    throw Error(cat(where, ": ", key, " is not a setting. ", hint_for_key(key, keys)));
}

void Reader::check_section(const std::string& name, const toml::node& node, const std::string& where) const {
    std::vector<std::string> sections;
    for (const Setting& setting : table_) {
        sections.emplace_back(setting.section);
    }
    const bool is_known = std::find(sections.begin(), sections.end(), name) != sections.end();
    if (!is_known && !node.is_table()) {
        (void)find(name, where);  // A key before any section: the error names the section it may belong to.
    }
    if (!is_known) {
        const std::string near = nearest_text(name, sections);
        sections.erase(std::unique(sections.begin(), sections.end()), sections.end());
        throw Error(cat(where, ": [", name, "] is not a section. ",
                        near.empty() ? cat("There are ", joined(sections), ".") : cat("Did you mean [", near, "]?")));
    }
    if (!node.is_table()) {
        throw Error(cat(where, ": ", name, " must be a section, but ", found_text(node), " was found."));
    }
}

void Reader::take(const Setting& setting, const toml::node& node, const SettingSource& source) {
    take_value(setting, node, source, settings_);
    given_[setting.key()] = {source.at(node.source()), source.kind};
}

void Reader::read_file(const std::filesystem::path& file) {
    if (!std::filesystem::is_regular_file(file)) {
        throw Error(cat("The settings file ", file.string(), " does not exist or is not a file."));
    }
    read_text_of(read_text(file),
                 {file.string(), std::filesystem::absolute(file).parent_path(), SettingSource::Kind::file});
}

void Reader::read_text_of(const std::string& text, const SettingSource& source) {
    toml::table table;
    try {
        table = toml::parse(text, source.name);
    } catch (const toml::parse_error& error) {
        const toml::source_position place = error.source().begin;
        throw Error(cat(source.name, ", line ", place.line, ", column ", place.column,
                        " is not valid TOML: ", error.description()));
    }
    for (const auto& [section, node] : table) {
        check_section(std::string(section.str()), node, source.at(section.source()));
        for (const auto& [key, value] : *node.as_table()) {
            take(find(cat(section.str(), ".", key.str()), source.at(key.source())), value, source);
        }
    }
}

void Reader::read_override(const std::string& text) {
    const SettingSource source{"--set " + text, std::filesystem::current_path(), SettingSource::Kind::override};
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
        throw Error(cat(source.name, ": a setting is given as section.key=value."));
    }
    const Setting& setting = find(text.substr(0, equals), source.name);
    const toml::table table = parse_override(setting, text.substr(equals + 1), source);
    take(setting, *table.get("value"), source);
}

// Null if a key was left at its default or given as off.
const Reader::Given* Reader::given(const std::string& key) const {
    const auto entry = given_.find(key);
    const bool counts = entry != given_.end() && !is_off(find(key, key).value_text(settings_));
    return counts ? &entry->second : nullptr;
}

// Of two keys that exclude each other, one that is given wins over a default, and a --set over a file; otherwise both
// at once is an error.
bool Reader::second_is_chosen(const std::string& first_key, const std::string& second_key) const {
    const Given* first = given(first_key);
    const Given* second = given(second_key);
    if (first != nullptr && second != nullptr && first->kind == second->kind) {
        throw Error(cat(second->where, ": ", second_key, " and ", first_key, " (", first->where,
                        ") exclude each other. Give one of them."));
    }
    return second != nullptr && (first == nullptr || second->kind == SettingSource::Kind::override);
}

// A shape changes a preset or stands alone, but never changes a folder's.
void Reader::refuse_shape_beside_folder() const {
    const Settings defaults;
    for (const Setting& setting : table_) {
        const bool is_of_shape = setting.section == "model" &&
                                 !std::set<std::string_view>{"preset", "from", "weights"}.contains(setting.name);
        if (is_of_shape && setting.value_text(settings_) != setting.value_text(defaults)) {
            throw Error(cat(given_.at(setting.key()).where, ": ", setting.key(), " cannot go with model.from (",
                            given_.at("model.from").where,
                            "), whose config.json has the shape. Leave one of them out."));
        }
    }
}

void Reader::choose_model(Settings::Model& model) const {
    const bool is_folder = second_is_chosen("model.preset", "model.from");
    const bool is_family = second_is_chosen("model.preset", "model.family");
    if (is_folder) {
        refuse_shape_beside_folder();
    } else {
        model.from.clear();
    }
    if (is_folder || is_family) {
        model.preset.clear();
    }
    if (!is_family) {
        model.shape.family.clear();
    }
    if (model.preset.empty() && model.from.empty() && model.shape.family.empty()) {
        throw Error("model.preset, model.from and model.family are all empty. Give one of them.");
    }
    if (model.weights == InitialWeights::loaded && model.from.empty()) {
        throw Error(
            "model.weights is \"loaded\", but there is no model.from to load them from. Name a folder there, or "
            "leave model.weights at \"auto\".");
    }
}

Settings Reader::finished() const {
    Settings result = settings_;
    choose_model(result.model);
    auto& window = result.window;
    (second_is_chosen("window.samples", "window.tokens") ? window.samples : window.tokens) = 0;
    if (window.samples == 0 && window.tokens == 0) {
        throw Error("window.samples and window.tokens are both 0, so that a window is empty. Give one of them.");
    }
    if (!given_.contains("optimizer.rate") && result.model.preset == "tiny") {
        result.optimizer.rate = kTinyRate;
    }
    if (const int64_t scale = result.compute.loss_scale; !LossScale::is_possible(scale)) {
        throw Error(cat(given_.at("compute.loss_scale").where, ": compute.loss_scale is ", scale,
                        ", but must be a power of two, such as ", std::bit_floor(static_cast<uint64_t>(scale)), "."));
    }
    auto& schedule = result.schedule;
    const auto warmup = given_.find("schedule.warmup_steps");
    if (warmup == given_.end()) {
        schedule.warmup_steps = std::min(schedule.warmup_steps, schedule.steps);
    } else if (schedule.warmup_steps > schedule.steps) {
        throw Error(cat(warmup->second.where, ": schedule.warmup_steps is ", schedule.warmup_steps,
                        ", but schedule.steps is only ", schedule.steps, ". The warmup must end within the run."));
    }
    return result;
}

}  // namespace

std::string name_of(const Settings::Model& model) {
    if (!model.from.empty()) {
        return model.from;
    }
    const ModelShape& shape = model.shape;
    std::string sizes;
    for (const auto& [name, size] : {std::pair{"layers", shape.layers},
                                     {"width", shape.width},
                                     {"heads", shape.heads},
                                     {"key_heads", shape.key_heads},
                                     {"ffn", shape.ffn},
                                     {"positions", shape.positions},
                                     {"vocabulary", shape.vocabulary}}) {
        sizes += size > 0 ? cat(sizes.empty() ? "" : ", ", name, " ", size) : "";
    }
    return cat(model.preset.empty() ? shape.family : model.preset, sizes.empty() ? "" : cat(" (", sizes, ")"));
}

Settings read_settings(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
    Reader reader;
    if (!file.empty()) {
        reader.read_file(file);
    }
    for (const std::string& text : overrides) {
        reader.read_override(text);
    }
    return reader.finished();
}

Settings settings_of_toml(const std::string& text, const std::string& name) {
    Reader reader;
    reader.read_text_of(text, {name, std::filesystem::current_path(), SettingSource::Kind::file});
    return reader.finished();
}

}  // namespace accrue
