#include <algorithm>
#include <array>

#include "accrue/base/error.h"
#include "accrue/data/documents/document_readers.h"
#include "accrue/data/tokenizers/unicode.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kEndings = {".txt", ".jsonl", ".bin", ".safetensors"};

std::string ending_of(const fs::path& file) {
    return without_compression(file).extension().string();
}

}  // namespace

bool has_known_ending(const fs::path& file) {
    return std::find(kEndings.begin(), kEndings.end(), ending_of(file)) != kEndings.end();
}

std::unique_ptr<DocumentReader> open_documents(const fs::path& file, const ReaderOptions& options) {
    const std::string ending = ending_of(file);
    if (ending == ".txt") {
        return read_text_documents(open_stream(file));
    }
    if (ending == ".jsonl") {
        return read_jsonl_documents(open_stream(file), options);
    }
    if (ending == ".bin") {
        return read_bin_documents(open_stream(file));
    }
    if (ending == ".safetensors") {
        return read_row_documents(file);
    }
    throw Error(cat(file.string(), " has ",
                    ending.empty() ? "no ending" : cat("the ending ", ending, ", which is not known"),
                    ". Known endings: ", kKnownEndings));
}

size_t find_no_utf8(std::string_view text) {
    size_t place = 0;
    while (place < text.size()) {
        if (static_cast<unsigned char>(text[place]) < 0x80) {
            ++place;
            continue;
        }
        const Character character = character_at(text, place);
        if (character.value == Character::kInvalid) {
            return place;
        }
        place += character.size;
    }
    return std::string_view::npos;
}

}  // namespace accrue
