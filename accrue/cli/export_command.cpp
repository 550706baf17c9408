#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/base/output_path.h"
#include "accrue/cli/commands.h"
#include "accrue/data/tokenizers/gguf_sentencepiece.h"
#include "accrue/data/tokenizers/gguf_vocabulary.h"
#include "accrue/data/tokenizers/tokenizer.h"
#include "accrue/model/export.h"
#include "accrue/train/trained_model.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// Files that may stand beside a model's weights.
constexpr std::array kCompanions = {"tokenizer.json",
                                    "tokenizer_config.json",
                                    "special_tokens_map.json",
                                    "added_tokens.json",
                                    "vocab.json",
                                    "merges.txt",
                                    "tokenizer.model",
                                    "tokenizer.tiktoken",
                                    "qwen.tiktoken",
                                    "chat_template.jinja",
                                    "generation_config.json"};

// Where a model lies, before anything of it is read.
struct SourcePlace {
    fs::path path;
    fs::path name;    // what the output is named after
    fs::path folder;  // whose tokenizer belongs to it; none for a GGUF file
};

// A model read whole.
struct Source {
    ModelWithWeights read;
    bool speaks_bytes = false;
};

SourcePlace place_of(const fs::path& given) {
    const fs::path path = given.has_filename() ? given : given.parent_path();
    if (path.extension() == ".gguf") {
        return {.path = path, .name = fs::path(path).replace_extension(), .folder = {}};
    }
    const fs::path folder = fs::exists(path / "config.json") ? path : path / "model";
    return {.path = path, .name = folder, .folder = folder};
}

Source open_source(const SourcePlace& place) {
    if (place.folder.empty()) {
        return {.read = read_gguf(place.path)};
    }
    const TrainedModel model(place.path, 1, 1, DeviceName(DeviceKind::cpu), warn);
    return {.read = {.model = model.spec(), .weights = model.weights_on_host()},
            .speaks_bytes = dynamic_cast<const ByteTokenizer*>(model.tokenizer()) != nullptr};
}

// Every file of the model or run that is exported. Earlier exports may lie there too and are none of it.
std::vector<fs::path> files_of(const SourcePlace& place) {
    if (!fs::is_directory(place.path)) {
        return {place.path};
    }
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(place.path)) {
        if (!entry.is_directory() && entry.path().extension() != ".gguf") {
            files.push_back(entry.path());
        }
    }
    return files;
}

// What is replaced as a folder must not be, hold or lie in the model, the checkpoints or anything else that is read.
std::vector<fs::path> folders_of(const SourcePlace& place) {
    return place.folder.empty() || place.folder == place.path
               ? std::vector{place.path}
               : std::vector{place.folder, place.path / "checkpoints", place.path / "run.toml"};
}

std::vector<fs::path> companions(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const char* const name : kCompanions) {
        if (!folder.empty() && fs::exists(folder / name)) {
            files.push_back(folder / name);
        }
    }
    return files;
}

fs::path default_output(const fs::path& name, const ExportRequest& request) {
    return fs::path(name) +=
           fmt::format("-{}{}", name_of(request.format), request.kind == ExportRequest::Kind::gguf ? ".gguf" : "");
}

// Before the model is read, which may take long.
fs::path checked_output(const SourcePlace& place, const ExportRequest& request) {
    const bool is_file = request.kind == ExportRequest::Kind::gguf;
    const OutputPlace output{.option = "--output",
                             .path = request.output,
                             .inputs = is_file ? files_of(place) : folders_of(place),
                             .overwrite = request.overwrite};
    if (is_file) {
        return check_output_file(output);
    }
    std::vector<std::string> own_files = {"config.json", "model.safetensors"};
    own_files.insert(own_files.end(), kCompanions.begin(), kCompanions.end());
    return check_output_folder(output, own_files);
}

// The vocabulary for a GGUF file, and what to say about it.
std::string choose_vocabulary(const Source& source, const fs::path& folder, ExportRequest& request) {
    if (source.speaks_bytes) {
        request.tokenizer = vocabulary_of_bytes();
        return "bytes";
    }
    const auto take = [&](const fs::path& file, const GgufVocabulary& vocabulary) {
        request.tokenizer = vocabulary.tokenizer;
        return vocabulary.tokenizer ? file.string() : "none: " + vocabulary.reason;
    };
    const auto file = folder.empty() ? std::nullopt : tokenizer_file_in(folder);
    if (!file) {
        return "none: there is no tokenizer.json";
    }
    return take(*file, file->extension() == ".json" ? vocabulary_of_json(*file) : vocabulary_of_sentencepiece(*file));
}

}  // namespace

ExitCode run_export(const ExportCommand& command) {
    ExportRequest request{.kind = command.to == "gguf" ? ExportRequest::Kind::gguf : ExportRequest::Kind::hf,
                          .format = parse_float_format(command.dtype),
                          .output = command.output,
                          .overwrite = command.overwrite ? Overwrite::yes : Overwrite::no};
    const SourcePlace place = place_of(command.source);
    if (request.output.empty()) {
        request.output = default_output(place.name, request);
    }
    const fs::path shown = request.output;
    if (fs::exists(place.path)) {  // what is missing is named when it is opened
        request.output = checked_output(place, request);
    }
    const Source source = open_source(place);
    std::string vocabulary;
    if (request.kind == ExportRequest::Kind::gguf) {
        vocabulary = choose_vocabulary(source, place.folder, request);
    } else {
        request.files = companions(place.folder);
    }
    const ExportReport report = export_model(*source.read.model, source.read.weights, request);
    fmt::print("written:     {}\nformat:      {}, {}\nmodel:       {}, {} tensors, {} parameters\nsize:        {}\n",
               shown.string(), command.to, command.dtype, source.read.model->family(), report.tensors,
               report.parameters, format_bytes(report.bytes));
    if (!vocabulary.empty()) {
        fmt::print("vocabulary:  {}\n", vocabulary);
    }
    for (const fs::path& file : request.files) {
        fmt::print("copied:      {}\n", file.filename().string());
    }
    return ExitCode::done;
}

}  // namespace accrue
