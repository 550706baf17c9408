#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string_view>

#include "accrue/data/documents/document.h"
#include "accrue/data/documents/input_stream.h"

namespace accrue {

// What open_documents() chooses from; one function per kind of file.
[[nodiscard]] std::unique_ptr<DocumentReader> read_text_documents(std::unique_ptr<InputStream> stream);
[[nodiscard]] std::unique_ptr<DocumentReader> read_jsonl_documents(std::unique_ptr<InputStream> stream,
                                                                   const ReaderOptions& options);
[[nodiscard]] std::unique_ptr<DocumentReader> read_bin_documents(std::unique_ptr<InputStream> stream);
[[nodiscard]] std::unique_ptr<DocumentReader> read_row_documents(const std::filesystem::path& file);

// Does open_documents() know the file's ending?
[[nodiscard]] bool has_known_ending(const std::filesystem::path& file);
// The endings it knows, for errors.
constexpr std::string_view kKnownEndings = ".txt, .jsonl, .bin, .safetensors, each also with .gz or .zst behind";

// Where the first byte stands that is no UTF-8; npos if there is none.
[[nodiscard]] size_t find_no_utf8(std::string_view text);
// UTF-8's byte order mark, which some editors write in front of a text.
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace accrue
