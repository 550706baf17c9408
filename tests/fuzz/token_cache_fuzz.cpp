#include <array>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "tests/fuzz/parsers.h"

#include "accrue/base/temporary_folder.h"
#include "accrue/data/token_cache.h"
#include "accrue/data/token_writer.h"

namespace accrue::fuzz {
namespace {

constexpr int64_t kTokens = 100;

void write(const std::filesystem::path& file, std::string_view bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
}

// A header that fits the files: damage of the header itself is found by its checksum.
TokenHeader header_of(int64_t documents, int64_t counted) {
    TokenHeader header;
    header.magic = kTokenMagic;
    header.token_bytes = 2;
    header.key.fill('k');
    header.facts = {.documents = documents, .tokens = kTokens, .counted = counted};
    header.checksum = checksum_of(header);
    return header;
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

// The bytes are the records of a cache's documents, which only their number checks when a cache is opened.
void run_token_cache(std::string_view bytes) {
    static const TemporaryFolder folder;
    static const bool written = [] {
        write(folder / "tokens", std::string(2 * kTokens, 't'));
        write(folder / "counted", std::string((kTokens + 63) / 64 * 8, 'c'));
        return true;
    }();
    (void)written;
    const auto documents = static_cast<int64_t>(bytes.size() / sizeof(DocumentRecord));
    const TokenHeader header = header_of(documents, bytes.empty() ? kTokens : kTokens / 2);
    write(folder / "header", {reinterpret_cast<const char*>(&header), sizeof header});
    write(folder / "documents", bytes.substr(0, static_cast<size_t>(documents) * sizeof(DocumentRecord)));
    if (!defect_of_cache(folder.path(), std::string(header.key.begin(), header.key.end())).empty()) {
        throw std::logic_error("a cache that fits is refused");
    }
    read_all(TokenCache(folder.path(), {"a.txt", "b.txt"}, ""));
}

}  // namespace accrue::fuzz
