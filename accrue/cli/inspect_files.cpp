#include "accrue/cli/inspect_files.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/cli/tensor_table.h"
#include "accrue/data/documents/document.h"
#include "accrue/data/tokenizers/tokenizer.h"
#include "accrue/data/tokenizers/tokenizer_files.h"
#include "accrue/tensor/gguf.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kLongestShown = 60;

// The beginning of a text, on one line.
std::string shortened(const std::string& text) {
    const std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
    return quoted.size() <= kLongestShown ? quoted : quoted.substr(0, kLongestShown) + "...";
}

std::string value_text(const GgufValue& value) {
    return std::visit(
        [](const auto& held) -> std::string {
            using Held = std::decay_t<decltype(held)>;
            if constexpr (std::is_same_v<Held, GgufArray>) {
                return fmt::format("{} values", length_of(held));
            } else if constexpr (std::is_same_v<Held, std::string>) {
                return shortened(held);
            } else {
                return fmt::format("{}", held);
            }
        },
        value);
}

std::string gguf_text(const fs::path& path) {
    const GgufFile file(path);
    std::string text = fmt::format("{}: a GGUF file, version 3, aligned to {}\n", path.string(), file.alignment());
    size_t width = 0;
    for (const auto& [key, value] : file.metadata()) {
        width = std::max(width, key.size());
    }
    for (const auto& [key, value] : file.metadata()) {
        text += fmt::format("{:<{}}  {:<12}  {}\n", key, width, type_name_of(value), value_text(value));
    }
    return cat(text, "\n", tensor_table(lines_of_gguf(path)));
}

// What a data file holds, counted by the reader that training uses.
struct DataCounts {
    int64_t documents = 0;
    int64_t text_bytes = 0;
    int64_t ids = 0;
    int64_t uncounted = 0;  // bytes and ids that are no targets
    int32_t smallest_id = std::numeric_limits<int32_t>::max();
    int32_t largest_id = -1;
    int64_t bad_lines = 0;
    int64_t longest = 0;  // document, in bytes or ids
    std::string first;    // how the first document begins
};

// How a document begins: its text, or its ids.
std::string beginning_of(const Document& document) {
    const DocumentPart& part = document.parts.front();
    constexpr size_t kMostIds = 10;
    return part.text.empty()
               ? fmt::format("{}", fmt::join(part.ids.begin(),
                                             part.ids.begin() + std::min<int64_t>(kMostIds, std::ssize(part.ids)), " "))
               : shortened(part.text.substr(0, 2 * kLongestShown));
}

DataCounts count_data(const fs::path& path) {
    const auto reader = open_documents(path, {.skip_bad = true});
    DataCounts counts;
    int64_t length = 0;
    for (Document document; reader->next(document);) {
        if (counts.first.empty()) {
            counts.first = beginning_of(document);
        }
        for (const DocumentPart& part : document.parts) {
            counts.text_bytes += static_cast<int64_t>(part.text.size());
            counts.ids += static_cast<int64_t>(part.ids.size());
            length += static_cast<int64_t>(part.text.size() + part.ids.size());
            counts.uncounted += part.counted ? 0 : static_cast<int64_t>(part.text.size() + part.ids.size());
            if (!part.ids.empty()) {
                const auto [low, high] = std::minmax_element(part.ids.begin(), part.ids.end());
                counts.smallest_id = std::min(counts.smallest_id, *low);
                counts.largest_id = std::max(counts.largest_id, *high);
            }
        }
        if (!document.unfinished) {
            ++counts.documents;
            counts.longest = std::max(counts.longest, std::exchange(length, 0));
        }
    }
    counts.bad_lines = reader->skipped();
    return counts;
}

std::string data_text(const fs::path& path) {
    const DataCounts counts = count_data(path);
    std::string text = fmt::format("{}: training data, {}\ndocuments:    {}\n", path.string(),
                                   format_bytes(static_cast<int64_t>(fs::file_size(path))), counts.documents);
    if (counts.text_bytes > 0) {
        text += fmt::format("text:         {}\n", format_bytes(counts.text_bytes));
    }
    if (counts.ids > 0) {
        text += fmt::format("token ids:    {}, from {} to {}\n", counts.ids, counts.smallest_id, counts.largest_id);
    }
    const char* unit = counts.ids > 0 ? "ids" : "bytes";
    text += fmt::format("longest:      {} {}\nnot counted:  {} of {} {}\nfirst:        {}\n", counts.longest, unit,
                        counts.uncounted, counts.text_bytes + counts.ids, unit, counts.first);
    if (counts.bad_lines > 0) {
        text += counts.ids > 0 ? fmt::format("left out:     {} rows that count nothing\n", counts.bad_lines)
                               : fmt::format("bad lines:    {}\n", counts.bad_lines);
    }
    return text;
}

std::string safetensors_text(const fs::path& path) {
    const std::vector<TensorLine> lines = lines_of_safetensors(path);
    const bool is_data =
        std::any_of(lines.begin(), lines.end(), [](const TensorLine& line) { return line.name == "input_ids"; });
    return fmt::format("{}: a safetensors file\n{}{}", path.string(), tensor_table(lines),
                       is_data ? cat("\n", data_text(path)) : "");
}

bool begins_with(const fs::path& path, std::string_view beginning) {
    const InputFile file(path);
    std::string found(beginning.size(), '\0');
    if (file.size() < static_cast<int64_t>(found.size())) {
        return false;
    }
    file.read(0, std::as_writable_bytes(std::span(found)));
    return found == beginning;
}

bool is_data_file(fs::path path) {
    if (path.extension() == ".gz" || path.extension() == ".zst") {
        path = path.stem();
    }
    return path.extension() == ".txt" || path.extension() == ".jsonl" || path.extension() == ".bin" ||
           path.extension() == ".safetensors";
}

// The type of a part of a tokenizer, such as "Sequence".
std::string type_of(const Json& json, const char* key) {
    if (!json.contains(key) || !json[key].is_object() || !json[key].contains("type")) {
        return "none";
    }
    return json[key]["type"].is_string() ? json[key]["type"].get<std::string>() : "unknown";
}

std::string tokenizer_json_text(const fs::path& path) {
    const Json json = Json::parse(
        is_vocabulary_file(path) ? tokenizer_json_of_vocabulary(path.parent_path()) : read_text(path), nullptr, false);
    if (!json.is_object() || !json.contains("model") || !json["model"].is_object() ||
        !json["model"].contains("vocab")) {
        throw Error(cat(path.string(), " is no tokenizer.json: it has no model with a vocab."));
    }
    const Json& model = json["model"];
    std::string text = fmt::format("{}: a tokenizer\nmodel:        {}\nvocabulary:   {}\nmerges:       {}\n",
                                   path.string(), type_of(json, "model"), model["vocab"].size(),
                                   model.contains("merges") ? model["merges"].size() : 0);
    for (const auto& [name, part] :
         {std::pair{"normalizer", "normalizer"}, {"splitting", "pre_tokenizer"}, {"decoder", "decoder"}}) {
        text += fmt::format("{:<14}{}\n", std::string(name) + ":", type_of(json, part));
    }
    const Json added = json.contains("added_tokens") && json["added_tokens"].is_array() ? json["added_tokens"] : Json();
    text += fmt::format("special:      {}\n", added.size());
    constexpr size_t kMostShown = 40;
    for (size_t i = 0; i < std::min(added.size(), kMostShown); ++i) {
        if (added[i].is_object() && added[i].contains("content") && added[i]["content"].is_string()) {
            text += fmt::format("  {:>8}  {}\n", added[i].contains("id") ? added[i]["id"].dump() : "?",
                                shortened(added[i]["content"]));
        }
    }
    return text + (added.size() > kMostShown ? fmt::format("  and {} more\n", added.size() - kMostShown) : "");
}

// SentencePiece models and lists of ranks, as training reads them.
std::string opened_tokenizer_text(const fs::path& path) {
    const auto tokenizer = open_tokenizer(path);
    std::string text = fmt::format("{}: a tokenizer, {}\nvocabulary:   {}\n", path.string(),
                                   format_bytes(static_cast<int64_t>(fs::file_size(path))), tokenizer->vocabulary());
    if (const auto end = tokenizer->end_of_document()) {
        text += fmt::format("end:          {}  {}\n", *end, shortened(tokenizer->token_text(*end)));
    }
    constexpr int32_t kMostShown = 5;
    for (int32_t id = 0; id < std::min<int64_t>(kMostShown, tokenizer->vocabulary()); ++id) {
        text += fmt::format("  {:>8}  {}\n", id, shortened(tokenizer->token_text(id)));
    }
    return text;
}

}  // namespace

std::string json_scalars_text(const std::string& json) {
    const Json parsed = Json::parse(json, nullptr, false);
    std::string text;
    size_t width = 12;
    if (parsed.is_object()) {
        for (const auto& [key, value] : parsed.items()) {
            width = value.is_primitive() ? std::max(width, key.size()) : width;
        }
        for (const auto& [key, value] : parsed.items()) {
            if (value.is_primitive()) {
                text += fmt::format("{:<{}} {}\n", key + ":", width + 1,
                                    value.is_string() ? shortened(value) : value.dump());
            }
        }
    }
    return text;
}

std::string tokenizer_text(const fs::path& path) {
    return path.extension() == ".json" ? tokenizer_json_text(path) : opened_tokenizer_text(path);
}

std::string file_text(const fs::path& path) {
    if (begins_with(path, "GGUF")) {
        return gguf_text(path);
    }
    if (path.extension() == ".safetensors") {
        return safetensors_text(path);
    }
    if (path.extension() == ".json" || path.extension() == ".model" || path.extension() == ".tiktoken") {
        return tokenizer_text(path);
    }
    if (is_data_file(path)) {
        return data_text(path);
    }
    throw Error(cat(path.string(), " is nothing that is known. Give a run, checkpoint or model folder, or a file: ",
                    ".safetensors, .gguf, tokenizer.json, tokenizer.model, .tiktoken, .txt, .jsonl, .bin."));
}

}  // namespace accrue
