#include "accrue/data/cache/document_selection.h"

#include <array>
#include <bit>
#include <system_error>
#include <utility>
#include <vector>

#include "accrue/base/error.h"
#include "accrue/base/file.h"
#include "accrue/base/file_lock.h"
#include "accrue/base/random.h"
#include "accrue/data/cache/token_writer.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

enum Side : size_t { train, validation };

// Begins a split's file; behind it stand the entries of train, those of validation, the checksums of the blocks (block_sums.h)
// of all this, and a checksum of those.
struct SplitHeader {
    std::array<char, 16> magic{};
    int64_t version = kTokenFormatVersion;
    uint64_t fraction = 0;
    std::array<char, 32> key{};
    std::array<DocumentFacts, 2> facts;
    uint64_t checksum = 0;
};
static_assert(std::has_unique_object_representations_v<SplitHeader>, "padding would be written to the disk");

constexpr std::array<char, 16> kSplitMagic = {'a', 'c', 'c', 'r', 'u', 'e', ' ', 's', 'p', 'l', 'i', 't'};

Side side_of(const DocumentRecord& record, double fraction) {
    const double place = static_cast<double>(mix(record.content_hash) >> 11) * 0x1p-53;
    return place < fraction ? validation : train;
}

}  // namespace

// The file of one split of one cache.
class SplitFile {
public:
    SplitFile(const TokenCache& cache, double fraction)
        : cache_(cache),
          fraction_(fraction),
          path_(cache.folder() / cat("split-", std::hex, std::bit_cast<uint64_t>(fraction))) {}

    [[nodiscard]] DocumentSelection::Split open(const std::shared_ptr<const TokenCache>& cache) const {
        const auto file = std::make_shared<const VerifiedFile>(path_, covered_bytes(), read_sums());
        const auto header = file->value<SplitHeader>(0);
        DocumentSelection::Split split;
        size_t offset = sizeof(SplitHeader);
        for (const Side side : {train, validation}) {
            DocumentSelection& selection = side == train ? split.train : split.validation;
            selection.cache_ = cache;
            selection.facts_ = header.facts[side];
            selection.first_entry_ = offset;
            selection.index_ = file;
            offset += static_cast<size_t>(selection.size()) * sizeof(DocumentSelection::Entry);
        }
        return split;
    }

    [[nodiscard]] bool is_whole() const {
        std::error_code missing;
        const auto size = fs::file_size(path_, missing);
        if (missing || size != covered_bytes() + (blocks_of(covered_bytes()) + 1) * sizeof(uint64_t)) {
            return false;
        }
        const InputFile file(path_);
        SplitHeader header;
        file.read(0, std::as_writable_bytes(std::span(&header, 1)));
        uint64_t checksum = 0;
        file.read(file.size() - int64_t{sizeof checksum}, std::as_writable_bytes(std::span(&checksum, 1)));
        return header.magic == kSplitMagic && header.version == kTokenFormatVersion &&
               header.checksum == checksum_of(header) && header.key == cache_.header().key &&
               checksum == checksum_of_sums(read_sums());
    }

    void write() const {
        const fs::path aside = path_.string() + ".partial";
        SummedFile file(aside);
        const SplitHeader header = make_header();
        file.write(std::as_bytes(std::span(&header, 1)));
        write_entries(file, train);
        write_entries(file, validation);
        std::vector<uint64_t> sums = file.sums();
        sums.push_back(checksum_of_sums(sums));
        file.write(std::as_bytes(std::span(sums)));
        file.close_synced();
        fs::rename(aside, path_);
        sync_folder(cache_.folder());
    }

private:
    // Header and entries.
    [[nodiscard]] size_t covered_bytes() const {
        return sizeof(SplitHeader) + static_cast<size_t>(cache_.document_count()) * sizeof(DocumentSelection::Entry);
    }

    [[nodiscard]] std::vector<uint64_t> read_sums() const {
        std::vector<uint64_t> sums(blocks_of(covered_bytes()));
        InputFile(path_).read(static_cast<int64_t>(covered_bytes()), std::as_writable_bytes(std::span(sums)));
        return sums;
    }

    static uint64_t checksum_of_sums(const std::vector<uint64_t>& sums) {
        return hash64_of(std::as_bytes(std::span(sums)), 0);
    }

    [[nodiscard]] SplitHeader make_header() const {
        std::array<FactsCollector, 2> facts;
        for (int64_t i = 0; i < cache_.document_count(); ++i) {
            const DocumentRecord& record = cache_.record(i);
            facts[side_of(record, fraction_)].add(i, cache_.document(i).size(), record);
        }
        SplitHeader header{.magic = kSplitMagic,
                           .fraction = std::bit_cast<uint64_t>(fraction_),
                           .key = cache_.header().key,
                           .facts = {facts[train].facts(), facts[validation].facts()}};
        header.checksum = checksum_of(header);
        return header;
    }

    void write_entries(SummedFile& file, Side side) const {
        constexpr size_t kEntriesAtOnce = 4096;
        std::vector<DocumentSelection::Entry> entries;
        int64_t tokens = 0;
        for (int64_t i = 0; i < cache_.document_count(); ++i) {
            if (side_of(cache_.record(i), fraction_) == side) {
                entries.push_back({i, tokens});
                tokens += cache_.document(i).size();
            }
            if (entries.size() == kEntriesAtOnce) {
                file.write(std::as_bytes(std::span(entries)));
                entries.clear();
            }
        }
        file.write(std::as_bytes(std::span(entries)));
    }

    const TokenCache& cache_;
    double fraction_;
    fs::path path_;
};

DocumentSelection DocumentSelection::all_of(std::shared_ptr<const TokenCache> cache) {
    DocumentSelection selection;
    selection.facts_ = cache->facts();
    selection.cache_ = std::move(cache);
    return selection;
}

DocumentSelection::Split DocumentSelection::split(const std::shared_ptr<const TokenCache>& cache,
                                                  double validation_fraction) {
    const SplitFile file(*cache, validation_fraction);
    if (!file.is_whole()) {
        const FileLock lock(cache->folder().string() + ".lock", [] {});
        file.write();
    }
    Split split = file.open(cache);
    for (const DocumentSelection* selection : {&split.train, &split.validation}) {
        if (selection->size() == 0) {
            throw Error(cat("data.validation_fraction is ", validation_fraction, ", and of ", cache->document_count(),
                            cache->document_count() == 1 ? " document" : " documents", " none is left for ",
                            selection == &split.train ? "training" : "validation",
                            ". Choose another fraction, give more documents, or name files in data.validation."));
        }
    }
    return split;
}

int64_t DocumentSelection::tokens_before(int64_t place) const {
    if (place == size()) {
        return facts_.tokens;
    }
    return index_ ? entry(place).tokens_before : cache_->document(place).begin;
}

}  // namespace accrue
