#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/data/cache/token_format.h"
#include "accrue/data/cache/verified_file.h"
#include "accrue/data/documents/document.h"

namespace accrue {

class TokenCache;

// How far a cache is. Called by the thread that opens it; what it throws stops the building and is passed on.
struct CacheProgress {
    enum class Stage {
        // Another process builds the same cache.
        waiting,
        tokenizing,
        // At the end, one of these: built just now, or found as it was built before.
        built,
        reused,
    };
    Stage stage = Stage::waiting;
    int64_t bytes_done = 0;
    int64_t bytes_total = 0;
    const TokenCache* cache = nullptr;  // at the end
    std::string_view purpose = {};      // "validation": set by those who open several, so that each can be told apart
};
using CacheProgressCallback = std::function<void(const CacheProgress&)>;

// Large documents come in pieces, each tokenized by itself: is this the first one, or one that goes on with another?
enum class PiecePlace { first, later };

// What a cache is made of, and how.
struct TokenSource {
    std::vector<std::filesystem::path> files;
    // Documents of a file, in order.
    std::function<std::unique_ptr<DocumentReader>(const std::filesystem::path&)> open;
    // Called by several threads at once. `tokenized` comes with whatever is left in it from another document.
    std::function<void(const Document& document, PiecePlace place, TokenizedDocument& tokenized)> tokenize;
    // What `open` and `tokenize` depend on besides the files: the same text, the same documents.
    std::string settings;
    // Ids below 65536 take 2 bytes if the vocabulary is not larger, otherwise all take 4.
    int64_t vocabulary = 0;
};

// Where and how a cache is built.
struct TokenCacheOptions {
    std::filesystem::path folder;
    // 0 = all processors.
    int threads = 0;
    CacheProgressCallback progress = nullptr;
};

// Tokens of one document, as places in the cache.
struct TokenRange {
    int64_t begin = 0;
    int64_t end = 0;
    [[nodiscard]] int64_t size() const { return end - begin; }
};

// Tokenized documents on disk, seen through memory maps and compared with their checksums when they are first read:
// what is damaged is an error, never a token. Reading is safe from several threads.
class TokenCache {
public:
    // A folder that was checked with defect_of_cache(). `files` are the names for error texts.
    TokenCache(std::filesystem::path folder, std::vector<std::filesystem::path> files, std::string rebuilt_because);

    [[nodiscard]] int64_t document_count() const { return header_.facts.documents; }
    [[nodiscard]] int64_t token_count() const { return header_.facts.tokens; }
    // Damaged lines, rows that count nothing and documents without a token, which are not in the cache.
    [[nodiscard]] int64_t skipped() const { return header_.skipped; }
    [[nodiscard]] const DocumentFacts& facts() const { return header_.facts; }
    [[nodiscard]] bool all_counted() const { return header_.facts.counted == header_.facts.tokens; }
    // Why an older cache was not taken; empty if it was, or if there was none.
    [[nodiscard]] const std::string& rebuilt_because() const { return rebuilt_because_; }
    [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
    [[nodiscard]] const TokenHeader& header() const { return header_; }

    // An error if the record of the document is damaged, which opening a cache does not look for.
    [[nodiscard]] TokenRange document(int64_t index) const;
    [[nodiscard]] const DocumentRecord& record(int64_t index) const {
        return documents_file_.value<DocumentRecord>(static_cast<size_t>(index) * sizeof(DocumentRecord));
    }
    // "stories.jsonl, document 3"
    [[nodiscard]] std::string name_of(int64_t document) const;

    [[nodiscard]] bool counted(int64_t token) const { return ((counted_word(token / 64) >> (token % 64)) & 1U) != 0; }
    // How many of these tokens are counted.
    [[nodiscard]] int64_t counted_in(TokenRange tokens) const;
    // Writes the ids of these tokens.
    void copy_ids(TokenRange tokens, std::span<int32_t> ids) const;

private:
    [[nodiscard]] uint64_t counted_word(int64_t word) const {
        return counted_file_.value<uint64_t>(static_cast<size_t>(word) * sizeof(uint64_t));
    }

    std::filesystem::path folder_;
    std::vector<std::filesystem::path> files_;
    std::string rebuilt_because_;
    TokenHeader header_;
    VerifiedFile tokens_file_;
    VerifiedFile counted_file_;
    VerifiedFile documents_file_;
};

// The cache of these documents: opened if it is there, without reading any token, built otherwise. Its key is made of
// the files' contents, their endings and the settings. A cache that is damaged or of another version is built again.
// Building takes memory for a few documents per thread, however large the files are. Caches that this one replaces are
// removed (cache_care.h).
[[nodiscard]] std::shared_ptr<const TokenCache> open_token_cache(const TokenSource& source,
                                                                 const TokenCacheOptions& options);

// Why the cache in a folder cannot be used; empty if it can.
[[nodiscard]] std::string defect_of_cache(const std::filesystem::path& folder, const std::string& key);

}  // namespace accrue
