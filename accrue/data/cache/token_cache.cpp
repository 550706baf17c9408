#include "accrue/data/cache/token_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <system_error>
#include <utility>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/hash.h"
#include "accrue/data/cache/token_writer.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

TokenHeader read_header(const fs::path& folder) {
    TokenHeader header;
    InputFile(folder / "header").read(0, std::as_writable_bytes(std::span(&header, 1)));
    return header;
}

// Some checksums of a cache, from the one with that number on.
std::vector<uint64_t> read_sums(const fs::path& folder, size_t first, size_t count) {
    std::vector<uint64_t> sums(count);
    InputFile(folder / "checksums")
        .read(static_cast<int64_t>(first * sizeof(uint64_t)), std::as_writable_bytes(std::span(sums)));
    return sums;
}

template <class T>
void widen(const VerifiedFile& file, TokenRange tokens, std::span<int32_t> ids) {
    const auto stored =
        file.values<T>(static_cast<size_t>(tokens.begin) * sizeof(T), static_cast<size_t>(tokens.size()));
    std::copy(stored.begin(), stored.end(), ids.begin());
}

std::string defect_of_size(const fs::path& file, size_t expected) {
    std::error_code missing;
    const size_t size = fs::file_size(file, missing);
    if (missing) {
        return cat("its file ", file.filename().string(), " is missing");
    }
    if (size != expected) {
        return cat("its file ", file.filename().string(), " has ", size, " bytes instead of ", expected);
    }
    return "";
}

}  // namespace

std::string defect_of_cache(const fs::path& folder, const std::string& key) {
    std::error_code missing;
    if (fs::file_size(folder / "header", missing) != sizeof(TokenHeader) || missing) {
        return "its header is missing or of another version";
    }
    const TokenHeader header = read_header(folder);
    if (header.magic != kTokenMagic || header.checksum != checksum_of(header)) {
        return "its header is damaged";
    }
    if (header.version != kTokenFormatVersion) {
        return cat("it is of version ", header.version, ", and this program writes version ", kTokenFormatVersion);
    }
    if (std::string_view(header.key.data(), header.key.size()) != key) {
        return "its header belongs to other contents";
    }
    const size_t blocks =
        blocks_of(header.tokens_bytes()) + blocks_of(header.counted_bytes()) + blocks_of(header.documents_bytes());
    for (const std::string& defect : {defect_of_size(folder / "tokens", header.tokens_bytes()),
                                      defect_of_size(folder / "counted", header.counted_bytes()),
                                      defect_of_size(folder / "documents", header.documents_bytes()),
                                      defect_of_size(folder / "checksums", blocks * sizeof(uint64_t))}) {
        if (!defect.empty()) {
            return defect;
        }
    }
    const std::vector<uint64_t> sums = read_sums(folder, 0, blocks);
    const bool fit = hash64_of(std::as_bytes(std::span(sums)), 0) == header.checksum_of_checksums;
    return fit ? "" : "its checksums are damaged";
}

TokenCache::TokenCache(fs::path folder, std::vector<fs::path> files, std::string rebuilt_because)
    : folder_(std::move(folder)),
      files_(std::move(files)),
      rebuilt_because_(std::move(rebuilt_because)),
      header_(read_header(folder_)),
      tokens_file_(folder_ / "tokens", header_.tokens_bytes(),
                   read_sums(folder_, 0, blocks_of(header_.tokens_bytes()))),
      counted_file_(folder_ / "counted", header_.counted_bytes(),
                    read_sums(folder_, blocks_of(header_.tokens_bytes()), blocks_of(header_.counted_bytes()))),
      documents_file_(folder_ / "documents", header_.documents_bytes(),
                      read_sums(folder_, blocks_of(header_.tokens_bytes()) + blocks_of(header_.counted_bytes()),
                                blocks_of(header_.documents_bytes()))) {}

// Checked here and not when the cache is opened, which would have to read all records.
TokenRange TokenCache::document(int64_t index) const {
    const TokenRange range = {index == 0 ? 0 : record(index - 1).token_end, record(index).token_end};
    if (range.begin < 0 || range.begin > range.end || range.end > token_count()) {
        throw Error(cat("the cache ", folder_.string(), " is damaged: document ", index, " has the tokens from ",
                        range.begin, " to ", range.end, " of ", token_count(),
                        ". Remove that folder, and it is made anew."));
    }
    return range;
}

std::string TokenCache::name_of(int64_t document) const {
    const uint32_t file = record(document).file;
    if (file >= files_.size()) {
        throw Error(cat("the cache ", folder_.string(), " is damaged: document ", document, " is of file ", file,
                        " of ", files_.size(), ". Remove that folder, and it is made anew."));
    }
    int64_t first = 0;  // of the same file
    for (int64_t high = document; first < high;) {
        const int64_t middle = first + (high - first) / 2;
        if (record(middle).file < file) {
            first = middle + 1;
        } else {
            high = middle;
        }
    }
    return cat(files_[file].string(), ", document ", document - first);
}

int64_t TokenCache::counted_in(TokenRange tokens) const {
    if (all_counted()) {
        return tokens.size();
    }
    int64_t count = 0;
    for (int64_t place = tokens.begin; place < tokens.end;) {
        const int64_t word_end = std::min(tokens.end, (place / 64 + 1) * 64);
        const int64_t bits = word_end - place;
        const uint64_t word = counted_word(place / 64) >> (place % 64);
        count += std::popcount(bits == 64 ? word : word & ((uint64_t{1} << bits) - 1));
        place = word_end;
    }
    return count;
}

void TokenCache::copy_ids(TokenRange tokens, std::span<int32_t> ids) const {
    // Whoever asks has looked for the documents of these tokens and for which of them count.
    constexpr size_t kBytesOfASearch = size_t{256} << 10;
    documents_file_.note_read(kBytesOfASearch);
    counted_file_.note_read(0);
    if (header_.token_bytes == 2) {
        widen<uint16_t>(tokens_file_, tokens, ids);
    } else {
        widen<int32_t>(tokens_file_, tokens, ids);
    }
}

}  // namespace accrue
