#include "accrue/data/dataset.h"

#include <array>
#include <system_error>

#include "accrue/base/error.h"
#include "accrue/base/hash.h"
#include "accrue/data/readers.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

enum class FileKind { text, token_rows };

FileKind kind_of(const fs::path& file) {
    std::error_code missing;
    if (!fs::exists(file, missing)) {
        throw Error(cat("there is no file ", file.string(), ". Check data.train and data.validation."));
    }
    if (file.extension() == ".txt") {
        return FileKind::text;
    }
    if (file.extension() == ".safetensors") {
        return FileKind::token_rows;
    }
    const std::string ending = file.extension().string();
    throw Error(cat(file.string(), " ends in ", ending.empty() ? "no ending" : ending,
                    ", which is not known. Known endings: .txt, .safetensors"));
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const std::vector<fs::path>& files, int64_t sequence_length) {
    if (files.empty()) {
        throw Error("a dataset needs at least one file, and none was given");
    }
    const FileKind kind = kind_of(files.front());
    for (const fs::path& file : files) {
        if (kind_of(file) != kind) {
            throw Error(cat("text and token files cannot be mixed in one dataset: ", files.front().string(), " and ",
                            file.string()));
        }
    }
    return kind == FileKind::text ? open_text(files, sequence_length) : open_token_rows(files);
}

std::string fingerprint_of(const Dataset& dataset) {
    Hasher hasher;
    for (int64_t index = 0; index < dataset.size(); ++index) {
        const Sample sample = dataset.sample(index);
        // The length keeps a boundary between samples in the checksum.
        const std::array<int64_t, 1> length = {static_cast<int64_t>(sample.tokens.size())};
        hasher.add(std::as_bytes(std::span(length)));
        hasher.add(std::as_bytes(std::span(sample.tokens)));
        hasher.add(std::as_bytes(std::span(sample.targets)));
    }
    return hasher.digest();
}

}  // namespace accrue
