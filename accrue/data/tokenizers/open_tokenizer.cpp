#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/data/tokenizers/tokenizer_files.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

bool looks_like_json(std::string_view contents) {
    const size_t first = contents.find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && contents[first] == '{';
}

fs::path file_in_or_fail(const fs::path& folder) {
    if (auto file = tokenizer_file_in(folder)) {
        return *std::move(file);
    }
    throw Error(cat(folder.string(),
                    " has no tokenizer: a tokenizer.json, tokenizer.model, tokenizer.tiktoken or vocab.json with "
                    "merges.txt is needed, or the tokenizer \"byte\", which needs no file"));
}

// What a download that went wrong leaves.
void check_not_hollow(const fs::path& file, std::string_view contents) {
    if (contents.find_first_not_of(" \t\r\n") == std::string_view::npos) {
        throw Error(
            cat(file.string(), " is empty, and a tokenizer was expected. Copy it again, or name another tokenizer."));
    }
    if (contents.starts_with("version https://git-lfs")) {
        throw Error(
            cat(file.string(), " is only a Git LFS pointer to a tokenizer. Fetch the file itself: git lfs pull"));
    }
}

}  // namespace

std::optional<fs::path> tokenizer_file_in(const fs::path& folder) {
    for (const char* name : {"tokenizer.json", "tokenizer.model", "tokenizer.tiktoken", "qwen.tiktoken"}) {
        if (fs::is_regular_file(folder / name)) {
            return folder / name;
        }
    }
    return is_vocabulary_file(folder / "vocab.json") ? std::optional(folder / "vocab.json") : std::nullopt;
}

std::unique_ptr<Tokenizer> open_tokenizer(const fs::path& path) {
    if (path == "byte") {
        return std::make_unique<ByteTokenizer>();
    }
    const fs::path file = fs::is_directory(path) ? file_in_or_fail(path) : path;
    const std::string contents =
        is_vocabulary_file(file) ? tokenizer_json_of_vocabulary(file.parent_path()) : read_text(file);
    check_not_hollow(file, contents);
    if (looks_like_json(contents)) {
        return tokenizer_of_json(contents, file.string());
    }
    if (looks_like_ranks(contents)) {
        return tokenizer_of_ranks(contents, file.string());
    }
    return tokenizer_of_sentencepiece(contents, file.string());
}

}  // namespace accrue
