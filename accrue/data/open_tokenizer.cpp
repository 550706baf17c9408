
#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/data/tokenizer_files.h"

namespace accrue {
namespace {

bool looks_like_json(std::string_view contents) {
    const size_t first = contents.find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && contents[first] == '{';
}

std::filesystem::path tokenizer_file_in(const std::filesystem::path& folder) {
    for (const char* name : {"tokenizer.json", "tokenizer.model", "tokenizer.tiktoken", "qwen.tiktoken"}) {
        if (std::filesystem::is_regular_file(folder / name)) {
            return folder / name;
        }
    }
    throw Error(cat(folder.string(),
                    " has no tokenizer: a tokenizer.json, tokenizer.model or tokenizer.tiktoken is "
                    "needed, or the tokenizer \"byte\", which needs no file"));
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path) {
    if (path == "byte") {
        return std::make_unique<ByteTokenizer>();
    }
    const std::filesystem::path file = std::filesystem::is_directory(path) ? tokenizer_file_in(path) : path;
    const std::string contents = read_text(file);
    if (looks_like_json(contents)) {
        return tokenizer_of_json(contents, file.string());
    }
    if (looks_like_ranks(contents)) {
        return tokenizer_of_ranks(contents, file.string());
    }
    return tokenizer_of_sentencepiece(contents, file.string());
}

}  // namespace accrue
