#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "accrue/base/bytes.h"
#include "accrue/base/error.h"
#include "accrue/cli/commands.h"
#include "accrue/cli/gguf_sentencepiece.h"
#include "accrue/cli/gguf_vocabulary.h"
#include "accrue/data/tokenizer.h"
#include "accrue/model/export.h"
#include "accrue/train/reader.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// A model read whole, and the folder whose tokenizer belongs to it; none for a GGUF file.
struct Source {
    ModelConfig config;
    std::vector<float> weights;
    fs::path name;  // what the output is named after
    fs::path folder;
    bool speaks_bytes = false;
};

Source open_source(const fs::path& given) {
    const fs::path path = given.has_filename() ? given : given.parent_path();
    if (path.extension() == ".gguf") {
        GgufModel model = read_gguf_model(path);
        fs::path name = path;
        return {.config = std::move(model.config),
                .weights = std::move(model.weights),
                .name = name.replace_extension(),
                .folder = {}};
    }
    const TrainedModel model(path, 1, 1, warn);
    const View<const float> master = model.weights().master;
    const fs::path folder = fs::exists(path / "config.json") ? path : path / "model";
    return {.config = model.config(),
            .weights = {master.data, master.data + master.columns},
            .name = folder,
            .folder = folder,
            .speaks_bytes = dynamic_cast<const ByteTokenizer*>(model.tokenizer()) != nullptr};
}

std::vector<fs::path> companions(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                             "vocab.json", "merges.txt", "tokenizer.model", "tokenizer.tiktoken", "qwen.tiktoken",
                             "chat_template.jinja", "generation_config.json"}) {
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

// The vocabulary for a GGUF file, and what to say about it.
std::string choose_vocabulary(const Source& source, ExportRequest& request) {
    if (source.speaks_bytes) {
        request.tokenizer = vocabulary_of_bytes();
        return "bytes";
    }
    const auto take = [&](const fs::path& file, const GgufVocabulary& vocabulary) {
        request.tokenizer = vocabulary.tokenizer;
        return vocabulary.tokenizer ? file.string() : "none: " + vocabulary.reason;
    };
    const auto file = source.folder.empty() ? std::nullopt : tokenizer_file_in(source.folder);
    if (!file) {
        return "none: there is no tokenizer.json";
    }
    return take(*file, file->extension() == ".json" ? vocabulary_of_json(*file) : vocabulary_of_sentencepiece(*file));
}

}  // namespace

ExitCode run_export(const ExportCommand& command) {
    ExportRequest request{.kind = command.to == "gguf" ? ExportRequest::Kind::gguf : ExportRequest::Kind::hf,
                          .format = parse_float_format(command.dtype),
                          .output = command.output};
    const Source source = open_source(command.source);
    if (request.output.empty()) {
        request.output = default_output(source.name, request);
    }
    std::string vocabulary;
    if (request.kind == ExportRequest::Kind::gguf) {
        vocabulary = choose_vocabulary(source, request);
    } else {
        request.files = companions(source.folder);
    }
    const ExportReport report = export_model(source.config, source.weights, request);
    fmt::print("written:     {}\nformat:      {}, {}\nmodel:       {}, {} tensors, {} parameters\nsize:        {}\n",
               request.output.string(), command.to, command.dtype, source.config.family, report.tensors,
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
