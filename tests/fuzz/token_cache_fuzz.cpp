#include <array>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "tests/fuzz/parsers.h"

#include "accrue/base/temporary_folder.h"
#include "accrue/data/cache/token_cache.h"
#include "accrue/data/cache/token_writer.h"

namespace accrue::fuzz {
namespace {

constexpr int64_t kTokens = 100;

void write(const std::filesystem::path& file, std::string_view bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
}

// A header that fits the files: damage of the header itself is found by its checksum.
TokenHeader header_of(int64_t documents, int64_t counted, const std::vector<uint64_t>& sums) {
    TokenHeader header;
    header.magic = kTokenMagic;
    header.token_bytes = 2;
    header.key.fill('k');
    header.facts = {.documents = documents, .tokens = kTokens, .counted = counted};
    header.checksum_of_checksums = hash64_of(std::as_bytes(std::span(sums)), 0);
    header.checksum = checksum_of(header);
    return header;
}

// The checksums of these files, one after another.
std::vector<uint64_t> sums_of(std::initializer_list<std::string_view> files) {
    std::vector<uint64_t> sums;
    for (const std::string_view file : files) {
        BlockSums of_file;
        of_file.add(std::as_bytes(std::span(file)));
        const std::vector<uint64_t> more = of_file.sums();
        sums.insert(sums.end(), more.begin(), more.end());
    }
    return sums;
}

void read_all(const TokenCache& cache) {
    for (int64_t document = 0; document < cache.document_count(); ++document) {
        const TokenRange range = cache.document(document);
        std::vector<int32_t> ids(static_cast<size_t>(range.size()));
        cache.copy_ids(range, ids);
        (void)cache.counted_in(range);
        (void)cache.name_of(document);
    }
}

}  // namespace

// The bytes are the records of a cache's documents, with checksums that fit: whatever else is wrong must be found.
void run_token_cache(std::string_view bytes) {
    static const TemporaryFolder folder;
    static const std::string tokens(2 * kTokens, 't');
    static const std::string counted((kTokens + 63) / 64 * 8, 'c');
    static const bool written = [] {
        write(folder / "tokens", tokens);
        write(folder / "counted", counted);
        return true;
    }();
    (void)written;
    const auto documents = static_cast<int64_t>(bytes.size() / sizeof(DocumentRecord));
    const std::string_view records = bytes.substr(0, static_cast<size_t>(documents) * sizeof(DocumentRecord));
    const std::vector<uint64_t> sums = sums_of({tokens, counted, records});
    const TokenHeader header = header_of(documents, bytes.empty() ? kTokens : kTokens / 2, sums);
    write(folder / "header", {reinterpret_cast<const char*>(&header), sizeof header});
    write(folder / "documents", records);
    write(folder / "checksums", {reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(uint64_t)});
    if (!defect_of_cache(folder.path(), std::string(header.key.begin(), header.key.end())).empty()) {
        throw std::logic_error("a cache that fits is refused");
    }
    read_all(TokenCache(folder.path(), {"a.txt", "b.txt"}, ""));
}

}  // namespace accrue::fuzz
